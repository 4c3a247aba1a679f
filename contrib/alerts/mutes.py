"""Mutes: for a time, no notices are written about one condition, or about all of its kind, except about the end of an
incident whose opening was reported. Incidents open and close as before."""

from collections.abc import Iterable
from datetime import datetime

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils import timezone

from contrib.alerts.models import AlertMute, Incident


def titled() -> QuerySet[AlertMute]:
    """All mutes, with their `title`."""
    about = Incident.objects.filter(kind=OuterRef("kind"), subject=OuterRef("subject")).order_by("-pk")
    title = Subquery(about.values("title")[:1])
    return AlertMute.objects.annotate(title=title).order_by("kind", "subject")  # type: ignore[no-redef]


def in_effect() -> QuerySet[AlertMute]:
    return titled().filter(until__gt=timezone.now())


def about(incident: Incident) -> QuerySet[AlertMute]:
    """Those in effect that are about this incident."""
    return in_effect().filter(kind=incident.kind, subject__in=("", incident.subject))


def set_muted_until(found: Iterable[Incident], now: datetime) -> None:
    """Set `muted_until` of each. One statement."""
    mutes = list(AlertMute.objects.filter(until__gt=now))
    for incident in found:
        ends = [each.until for each in mutes if each.kind == incident.kind and each.subject in ("", incident.subject)]
        incident.muted_until = max(ends, default=None)


def mute(*, kind: str, subject: str, until: datetime, by: str, reason: str = "") -> None:
    """Mute the condition, or all of the kind if `subject` is empty; replaces an earlier mute of the same."""
    values = {"until": until, "created_by": by, "created_at": timezone.now(), "reason": reason}
    AlertMute.objects.update_or_create(kind=kind, subject=subject, defaults=values)


def prune() -> int:
    """Delete mutes that have ended; returns how many."""
    return AlertMute.objects.filter(until__lte=timezone.now()).delete()[0]
