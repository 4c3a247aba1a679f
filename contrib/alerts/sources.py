"""What pauses and settings of sources do to the alerts about them, and since when sources are failing."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from contrib.alerts import incidents
from lookup.models import SourcePause
from lookup.source_actions import configured
from monitoring.health.dependencies import SOURCE_KINDS, ended_by
from monitoring.health.registry import Condition


def end_alerts(pause: SourcePause, **kwargs: Any) -> None:
    """In the transaction of the pause: nothing calls a paused source failing."""
    incidents.report(
        conditions=ended_by(pause),
        kinds=dict.fromkeys(SOURCE_KINDS, True),
        subjects=[pause.connector],
        now=timezone.now(),
    )


def reopen_alerts(pause: SourcePause, **kwargs: Any) -> None:
    """In the transaction of the resumption: what failed before the pause has failed since then, until it works."""
    incidents.reopen(
        kinds=SOURCE_KINDS,
        subject=pause.connector,
        closed_since=pause.paused_at,
        summary="Resumed; not checked since.",
        hint="Check it on its page, or wait for the next search.",
    )


def unconfigured() -> list[Condition]:
    """Ends the alerts about sources that are not configured any more: nothing calls them."""
    found = incidents.current().filter(kind__in=SOURCE_KINDS).exclude(subject__in=configured())
    because = "the source is not configured any more"
    return [incidents.ended(each, because) for each in found]


def failing_since(now: datetime) -> dict[str, datetime]:
    """By the name of the source. One statement. Where alerts are off nothing updates the incidents."""
    seen = incidents.current().filter(kind="source.failing", last_seen_at__gt=now - incidents.MAX_GAP)
    return dict(seen.values_list("subject", "first_seen_at"))
