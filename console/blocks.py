"""Blocks that add-ons add to the dashboard."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

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


#: Shown between the credits and the sources, in their order.
BLOCKS = Hook[Block]()
