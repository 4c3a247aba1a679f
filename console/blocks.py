"""What add-ons add to the dashboard: blocks, and what needs attention."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from core.hooks import Hook

if TYPE_CHECKING:
    from monitoring.source_report import Report


@dataclass(frozen=True, slots=True)
class Figures:
    """What the dashboard has read of its period, from `since` to before `until`. `credits`: None for users who may not
    view the ledger. `report`: None for those who may not view sources."""

    now: datetime
    since: datetime
    until: datetime
    credits: Mapping[str, int] | None
    report: "Report | None"


class Block(NamedTuple):
    """`template`: included in the page, whose context it has; `values` in it is what `context` returned. `context`: the
    dotted path of a function of the request and the Figures, imported when the dashboard is first opened; it returns a
    dict, or None if this user may not view the block."""

    template: str
    context: str


@dataclass(frozen=True, slots=True)
class Attention:
    """What stands under "Needs attention", after the unhealthy checks. `template`: included in the page, whose context
    it has; `values` in it is `values`. `is_quiet`: nothing of it needs attention. `reported`: kinds and subjects of the
    conditions (monitoring.health.registry) that it shows, and that the health checks then leave out."""

    template: str
    values: Mapping[str, Any]
    is_quiet: bool
    reported: Collection[tuple[str, str]] = ()


#: Shown between the credits and the sources, in their order.
BLOCKS = Hook[Block]()
#: Dotted paths of functions of the request that return an Attention, or None if this user may not view it.
ATTENTION = Hook[str]()
