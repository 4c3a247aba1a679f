"""What add-ons add to health checks, to what is known about sources, to their page, and to the dashboard."""

from typing import NamedTuple

from core.hooks import Hook


class Section(NamedTuple):
    """`template`: included in the page, whose context it has; `values` in it is what `context` returned. `context`: the
    dotted path of a function of the time; it returns a dict, or None if there is nothing to show."""

    template: str
    context: str


#: Dotted paths of health checks (monitoring.health.registry.Check), which follow all others.
CHECKS = Hook[str]()
#: Dotted paths of functions of the time that return since when sources have been failing, by their names.
FAILING_SINCE = Hook[str]()
#: Of the page of all sources, after that of complaint data.
SOURCE_SECTIONS = Hook[Section]()
#: Dotted paths of functions of the time that return the requests of the last minutes (service_status.Recent), or None
#: if they do not know them. They raise OperationalError if the query times out.
RECENT_REQUESTS = Hook[str]()
