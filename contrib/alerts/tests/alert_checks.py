"""What the tests of alerts check, and what they see of it."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken
from contrib.alerts import checking
from contrib.alerts.incidents import open_incidents
from contrib.alerts.models import Incident
from tests.console.dashboard_rows import NOW


def found() -> set[tuple[str, str]]:
    """Kind and subject of the open incidents, after a check and another one when the delay is over."""
    clock: Any = timezone.now
    checking.check()
    clock.now += timedelta(minutes=5)
    checking.check()
    return {(each.kind, each.subject) for each in open_incidents()}


def expiring(days: float, name: str = "pbx") -> ApiToken:
    token = tokens.issue(name=name, initial_credits=5, actor="test").token
    ApiToken.objects.filter(pk=token.pk).update(expires_at=NOW + timedelta(days=days))
    return token


def only() -> Incident:
    return open_incidents().get()
