"""Muted alerts are not reported, and what still matters afterwards is."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from contrib.alerts import incidents, mutes
from contrib.alerts.models import AlertMute, Incident, Notice
from core import db
from monitoring.health.registry import Condition
from tests.account_fixtures import Clock
from tests.monitoring.concurrency import in_threads

pytestmark = pytest.mark.django_db

KIND = "source.failing"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def by_email(settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]


def report(*subjects: str) -> tuple[int, int]:
    conditions = [Condition(KIND, name, f"Source failing: {name}") for name in subjects]
    return incidents.report(conditions=conditions, kinds={KIND: False}, now=timezone.now())


def mute(subject: str = "") -> None:
    mutes.mute(kind=KIND, subject=subject, until=timezone.now() + HOUR, by="olga")


def written() -> list[tuple[str, list[str]]]:
    """Event and subjects of each notice."""
    found = []
    for notice in Notice.objects.order_by("pk"):
        data = json.loads(notice.payload)["data"]
        found.append((notice.event, [each["subject"] for each in data.get("incidents", [data])]))
    return found


def test_muted_alerts_open_without_notices_and_reported_ones_end(clock: Clock) -> None:
    report("twilio")
    mute()
    assert report("trestle") == (1, 1)
    assert report() == (0, 1)
    clock.now += HOUR
    incidents.notify_later(clock.now)
    assert written() == [("incident.opened", ["twilio"]), ("incident.resolved", ["twilio"])]


def test_alert_still_open_when_its_mute_ends_is_reported(clock: Clock) -> None:
    mute()
    report("trestle", "twilio")
    incidents.notify_later(clock.now)
    assert written() == []
    clock.now += HOUR
    for _ in range(2):
        incidents.notify_later(clock.now)
    assert written() == [("incident.opened", ["trestle", "twilio"])]
    report()
    assert written()[1:] == [("incident.resolved", ["trestle", "twilio"])]
    assert all(incidents.notices_about(each).count() == 2 for each in Incident.objects.all())


def test_end_is_not_reported_if_the_opening_never_was(clock: Clock) -> None:
    mute()
    report("trestle")
    clock.now += HOUR
    assert report() == (0, 1)
    assert written() == []


def test_mute_of_a_subject_leaves_others_as_they_are() -> None:
    mute("twilio")
    report("trestle", "twilio")
    assert written() == [("incident.opened", ["trestle"])]


def test_longest_mute_applies_and_muting_again_replaces_one(clock: Clock) -> None:
    mutes.mute(kind=KIND, subject="", until=clock.now + 2 * HOUR, by="olga")
    mute("twilio")
    mute("twilio")
    assert AlertMute.objects.count() == 2
    incident = Incident(kind=KIND, subject="twilio")
    mutes.set_muted_until([incident], clock.now)
    assert incident.muted_until == clock.now + 2 * HOUR


def test_incidents_of_the_version_before_count_as_reported() -> None:
    """It inserts rows without the new columns."""
    now = timezone.now()
    old = Incident(kind=KIND, subject="x", title="x", first_seen_at=now, last_seen_at=now, opened_at=now)
    names = ("kind", "subject", "title", "summary", "hint", "first_seen_at", "last_seen_at", "opened_at")
    values = [getattr(old, name) for name in names]
    db.run(f"INSERT INTO monitoring_incident ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})", values)
    incidents.notify_later(now)
    assert written() == []
    report()
    assert written() == [("incident.resolved", ["x"])]


@pytest.mark.django_db(transaction=True)
def test_concurrent_checkers_report_an_alert_after_its_mute_once() -> None:
    mute()
    report("trestle", "twilio")
    AlertMute.objects.all().delete()
    in_threads(4, lambda: incidents.notify_later(timezone.now()))
    assert sorted(name for _, names in written() for name in names) == ["trestle", "twilio"]
