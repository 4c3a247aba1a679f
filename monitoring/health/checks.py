"""The list of all health checks, in the order in which they are shown."""

from django.http import HttpRequest
from django.utils import timezone

from monitoring.health import dependencies, usage
from monitoring.health.base import Check, Context, Result, result

CHECKS: tuple[Check, ...] = (*dependencies.CHECKS, *usage.CHECKS)


def for_dashboard(request: HttpRequest) -> list[Result]:
    """The results that the dashboard shows, now. Raises DatabaseError if the database does not respond."""
    context = Context(timezone.now(), request)
    results = [result(check, context) for check in CHECKS if check.on_dashboard]
    return [each for each in results if each]
