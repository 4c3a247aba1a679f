"""What add-ons add to health checks, to what is known about sources, to their page, and to the dashboard."""

from typing import NamedTuple

from core.hooks import Hook


class Section(NamedTuple):
    """`template`: included in the page, whose context it has; `values` in it is what `context` returned. `context`: the
    dotted path of a function of the time; it returns a dict, or None if there is nothing to show."""

    template: str
    context: str


#: Dotted paths of health checks (monitoring.health.base.Check), which follow all others.
CHECKS = Hook[str]()
#: Dotted paths of functions of the time that return since when sources have been failing, by their names.
FAILING_SINCE = Hook[str]()
#: Of the page of all sources, after that of complaint data.
SOURCE_SECTIONS = Hook[Section]()
#: Dotted paths of functions of a time and outcomes (accounts.request_statistics.OUTCOMES) that return, for each minute
#: since then and each of these outcomes, how many requests had it: tuples of the minute, the outcome and the count; or
#: None if they do not know. They raise OperationalError if the query times out.
OUTCOMES_BY_MINUTE = Hook[str]()
