"""What add-ons add to health checks, to what is known about sources, and to the dashboard."""

from core.hooks import Hook

#: Dotted paths of health checks (monitoring.health.registry.Check), which follow all others.
CHECKS = Hook[str]()
#: Dotted paths of functions of the time that return since when sources have been failing, by their names.
FAILING_SINCE = Hook[str]()
#: Dotted paths of functions of the time that return the requests of the last minutes (service_status.Recent), or None
#: if they do not know them. They raise OperationalError if the query times out.
RECENT_REQUESTS = Hook[str]()
