"""What add-ons add to health checks, to what is known about sources, and to the dashboard."""

from core.hooks import Hook

#: Dotted paths of health checks (monitoring.health.registry.Check), which follow all others.
CHECKS = Hook[str]()
#: Dotted paths of functions of the time that return since when sources have been failing, by their names.
FAILING_SINCE = Hook[str]()
#: Dotted paths of functions of a time and outcomes (accounts.request_statistics.OUTCOMES) that return, for each minute
#: since then and each of these outcomes, how many requests had it: tuples of the minute, the outcome and the count; or
#: None if they do not know. They raise OperationalError if the query times out.
OUTCOMES_BY_MINUTE = Hook[str]()
