"""Incidents: conditions that need an operator. Each is reported once when it begins and once when it ends; of critical
ones that nobody acknowledges, reminders are sent.

A checker passes the conditions that it sees now to `report`, as often as it likes. Two may do so at the same time, on
two hosts: each change of an incident is a guarded UPDATE, and the transaction in which it changed the row writes the
notices. Those of one kind that open, or end for one reason, in one check are reported together, in one notice to each
recipient.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.forms.models import model_to_dict
from django.utils import timezone

from contrib.alerts import alert_recipients, mutes, notices
from contrib.alerts.models import Incident, Notice, page_url
from core.periods import iso
from core.retention import delete_in_batches, oldest_kept
from monitoring.health.registry import CRITICAL, Condition, Effect

#: A condition that has not opened an incident begins anew if nobody has checked for so long.
MAX_GAP = timedelta(minutes=15)
_kind, _ending = attrgetter("kind"), attrgetter("kind", "ended_because")


def report(
    *,
    conditions: Iterable[Condition],
    kinds: Mapping[str, bool],
    now: datetime,
    subjects: Collection[str] | None = None,
) -> tuple[int, int]:
    """Open, update and close incidents of `kinds`, which were all checked; returns how many opened and how many closed.

    `kinds`: each with whether its conditions must last for ALERT_OPEN_AFTER_MIN before their incident opens, and be
    absent for ALERT_CLOSE_AFTER_MIN before it closes. `subjects`: only these were checked."""
    seen = {(each.kind, each.subject): each for each in conditions}
    present = {key: each for key, each in seen.items() if each.effect is not Effect.ENDED}
    checked = current().filter(kind__in=kinds)
    if subjects is not None:
        checked = checked.filter(subject__in=subjects)
    known = {(each.kind, each.subject): each for each in checked}
    opening, closing = [], []
    for key, condition in sorted(present.items()):
        incident = known.get(key) or (_begin(condition, now) if condition.effect is Effect.ALERT else None)
        if incident is not None:
            open_after_min = settings.ALERT_OPEN_AFTER_MIN if kinds[condition.kind] else 0
            if _continue(incident, condition, timedelta(minutes=open_after_min), now):
                opening.append(incident)
    for key, incident in sorted(known.items()):
        if key not in present:
            close_after_min = settings.ALERT_CLOSE_AFTER_MIN if kinds[incident.kind] and key not in seen else 0
            incident.ended_because = seen[key].ended_because if key in seen else ""
            if key in seen:
                incident.summary, incident.hint = _line(seen[key].summary, 500), seen[key].hint
            if _may_end(incident, timedelta(minutes=close_after_min), now):
                closing.append(incident)
    opened = sum(_open(list(each), now) for _, each in groupby(opening, _kind))
    closing.sort(key=_ending)
    closed = sum(_close(list(each), now) for _, each in groupby(closing, _ending))
    return opened, closed


def current() -> QuerySet[Incident]:
    """Incidents that have not closed, including those that have not opened yet."""
    return Incident.objects.filter(closed_at=None)


def open_incidents() -> QuerySet[Incident]:
    """The newest first."""
    return current().filter(opened_at__isnull=False).order_by("-opened_at", "-pk")


def unchecked(kinds: Collection[str], now: datetime) -> list[Condition]:
    """Ends those of other kinds than these that nobody has seen for MAX_GAP: their add-on was left out."""
    found = current().exclude(kind__in=kinds).filter(last_seen_at__lt=now - MAX_GAP)
    return [ended(each, "nothing checks this any more") for each in found]


def ended(incident: Incident, because: str) -> Condition:
    """Ends it for another reason than that its condition is over."""
    return Condition(
        *(incident.kind, incident.subject, incident.title, incident.summary), effect=Effect.ENDED, ended_because=because
    )


def acknowledge(*, incident: Incident, by: str, reason: str = "") -> None:
    """Record who looks after an open incident. Raises ValueError if it has ended or is acknowledged already."""
    values = {"acknowledged_at": timezone.now(), "acknowledged_by": by, "acknowledgement": reason}
    if not open_incidents().filter(pk=incident.pk, acknowledged_at=None).update(**values):
        raise ValueError("This alert has ended, or is acknowledged already.")


def withdraw_acknowledgement(incident: Incident) -> None:
    """Raises ValueError if the incident has ended or is not acknowledged."""
    acknowledged = open_incidents().filter(pk=incident.pk, acknowledged_at__isnull=False)
    if not acknowledged.update(acknowledged_at=None, acknowledged_by="", acknowledgement=""):
        raise ValueError("This alert has ended, or is not acknowledged.")


def _begin(condition: Condition, now: datetime) -> Incident:
    """A new incident that has not opened yet, or the one that another checker has just created."""
    times = {"first_seen_at": now, "last_seen_at": now}
    return current().get_or_create(kind=condition.kind, subject=condition.subject, defaults=times)[0]


def _continue(incident: Incident, condition: Condition, open_after: timedelta, now: datetime) -> bool:
    """Update the incident; returns whether it is to open now."""
    if incident.opened_at is None and now - incident.last_seen_at > MAX_GAP:
        incident.first_seen_at = now
    seen: dict[str, Any] = {
        "title": _line(condition.title, 250),
        "summary": _line(condition.summary, 500),
        "hint": _line(condition.hint, 500),
        "first_seen_at": incident.first_seen_at,
        "last_seen_at": now,
    }
    for name, value in seen.items():
        setattr(incident, name, value)
    current().filter(pk=incident.pk).update(**seen)
    may_open = incident.opened_at is None and condition.effect is Effect.ALERT
    return may_open and now - incident.first_seen_at >= open_after


@transaction.atomic
def _open(found: list[Incident], now: datetime) -> int:
    """Open those that no other checker has opened; returns how many. `found`: of one kind, by subject, so that two
    checkers lock them in the same order."""
    mutes.set_muted_until(found, now)
    opened = []
    for incident in found:
        notified_at = None if incident.muted_until else now
        if current().filter(pk=incident.pk, opened_at=None).update(opened_at=now, notified_at=notified_at):
            incident.opened_at = now
            opened.append(incident)
    _notify(Notice.Event.INCIDENT_OPENED, [each for each in opened if not each.muted_until], now)
    return len(opened)


def reopen(*, kinds: Iterable[str], subject: str, closed_since: datetime, summary: str, hint: str) -> None:
    """Reopen the latest incident of each kind about `subject` that closed since then, unless a newer one has begun.
    notify_later reports it again."""
    for kind in kinds:
        closed = Incident.objects.filter(
            kind=kind, subject=subject, closed_at__gte=closed_since, opened_at__isnull=False
        )
        latest = closed.order_by("-closed_at").first()
        if latest is not None:
            with suppress(IntegrityError), transaction.atomic():
                Incident.objects.filter(pk=latest.pk).update(
                    closed_at=None,
                    ended_because="",
                    last_seen_at=timezone.now(),
                    notified_at=None,
                    acknowledged_at=None,
                    acknowledged_by="",
                    acknowledgement="",
                    summary=summary,
                    hint=hint,
                )


def notify_later(now: datetime) -> None:
    """Write notices about open incidents that are not muted: about the opening of those that were muted then, and
    reminders of critical ones that nobody has acknowledged."""
    due = {Notice.Event.INCIDENT_OPENED: Q(notified_at=None, acknowledged_at=None)}
    if settings.ALERT_REMIND_AFTER_H:
        before = now - timedelta(hours=settings.ALERT_REMIND_AFTER_H)
        unhandled = Q(kind__in=CRITICAL, acknowledged_at=None)
        due[Notice.Event.INCIDENT_REMINDER] = unhandled & Q(notified_at__lte=before)
    for event, condition in due.items():
        found = list(open_incidents().filter(condition).order_by("kind", "subject"))
        mutes.set_muted_until(found, now)
        for _, same_kind in groupby((each for each in found if not each.muted_until), _kind):
            _notify_again(list(same_kind), event, condition, now)


@transaction.atomic
def _notify_again(found: list[Incident], event: str, condition: Q, now: datetime) -> None:
    """Write the notices about those for which the condition still holds: no other checker has done so."""
    due = [each for each in found if open_incidents().filter(condition, pk=each.pk).update(notified_at=now)]
    _notify(event, due, now)


def _line(text: str, length: int) -> str:
    """Without line breaks, which a subject of an e-mail must not have."""
    return " ".join(text.split())[:length]


def _may_end(incident: Incident, close_after: timedelta, now: datetime) -> bool:
    """Whether the incident is open and its condition has been absent for long enough. Deletes one that never opened."""
    if incident.opened_at is None:
        with transaction.atomic():
            # Closed first, by a guarded UPDATE: Django's delete() reads the rows, and then deletes them by id alone.
            if _unchanged(incident).filter(opened_at=None).update(closed_at=now):
                incident.delete()
        return False
    return now - incident.last_seen_at >= close_after


def _unchanged(incident: Incident) -> QuerySet[Incident]:
    """No row if another checker has seen the condition meanwhile."""
    return current().filter(pk=incident.pk, last_seen_at=incident.last_seen_at)


@transaction.atomic
def _close(found: list[Incident], now: datetime) -> int:
    """As `_open`. Reports the end of each incident whose opening was reported, also if it is muted: a receiver that
    tracks it would keep it open."""
    closed = []
    for incident in found:
        ending = model_to_dict(incident, ("summary", "hint", "ended_because"))
        if _unchanged(incident).update(closed_at=now, **ending):
            closed.append(incident)
    for incident in closed:
        incident.closed_at = now
    # Read after the UPDATE, which locks them: another checker may have reported their opening meanwhile.
    reported = Incident.objects.filter(pk__in=[each.pk for each in closed], notified_at__isnull=False)
    keys = set(reported.values_list("pk", flat=True))
    _notify(Notice.Event.INCIDENT_RESOLVED, [each for each in closed if each.pk in keys], now)
    return len(closed)


def _notify(event: str, found: list[Incident], now: datetime) -> list[Notice]:
    """Write the notices of incidents of one kind: of several, one that lists them, and refers to the first."""
    if not found:
        return []
    saved = found[0] if found[0].pk else None
    data = _data(found[0])
    if len(found) > 1:
        common = {"kind": found[0].kind, "severity": found[0].severity}
        data = {**common, "count": len(found), "incidents": [_data(each) for each in found]}
    critical = found[0].severity == "critical" or event == Notice.Event.TEST
    targets = alert_recipients.targets(critical=critical)
    return notices.write(event=event, data=data, at=now, targets=targets, incident=saved)


def _data(incident: Incident) -> dict[str, Any]:
    return {
        "id": incident.pk,
        "kind": incident.kind,
        "severity": incident.severity,
        **model_to_dict(incident, ("subject", "title", "summary", "hint")),
        "began_at": iso(incident.first_seen_at),
        "opened_at": iso(incident.opened_at) if incident.opened_at else None,
        "closed_at": iso(incident.closed_at) if incident.closed_at else None,
        "ended_because": incident.ended_because or None,
        "url": page_url(f"{incident.pk}/change/" if incident.pk else ""),
    }


def notices_about(incident: Incident) -> QuerySet[Notice]:
    """Its notices, and those that report it together with others of its kind: these refer to the first of them."""
    together = Incident.objects.filter(kind=incident.kind)
    return Notice.objects.filter(
        incident__in=together, created_at__gte=incident.opened_at, payload__contains=f'"id": {incident.pk}, '
    )


def write_test_alert() -> list[Notice]:
    """A test alert to everything that gets alerts, due now."""
    now = timezone.now()
    summary = "Alerts of this service arrive here."
    test = Incident(kind="test", title="Test alert", summary=summary, first_seen_at=now, opened_at=now)
    return _notify(Notice.Event.TEST, [test], now)


def prune() -> int:
    """Delete incidents that closed more than KEPT_DAYS ago, with their notices; returns how many rows."""
    return delete_in_batches(Incident.objects.filter(closed_at__lt=oldest_kept()), 1_000)
