"""What add-ons add to health checks and to what is known about sources."""

from core.hooks import Hook

#: Dotted paths of health checks (monitoring.health.base.Check), which follow all others.
CHECKS = Hook[str]()
#: Dotted paths of functions of the time that return since when sources have been failing, by their names.
FAILING_SINCE = Hook[str]()
