"""Critical alerts that nobody looks after are reported again, once for each interval."""

import json
from datetime import timedelta
from typing import Any

import pytest

from contrib.alerts import incidents, mutes, notices
from contrib.alerts.models import Incident, Notice
from monitoring.health.registry import Condition
from tests.account_fixtures import Clock
from tests.monitoring.concurrency import in_threads
from tests.smtp import Mailbox

pytestmark = pytest.mark.django_db

CRITICAL, WARNING = "source.failing", "source.slow"
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def remind_after_4_hours(settings: Any) -> None:
    settings.ALERT_EMAILS, settings.ALERT_REMIND_AFTER_H = ["ops@example.org"], 4


def report(clock: Clock, *subjects: str, kind: str = CRITICAL) -> None:
    conditions = [Condition(kind, name, f"Wrong: {name}") for name in subjects]
    incidents.report(conditions=conditions, kinds={kind: False}, now=clock.now)


def reminders() -> list[list[str]]:
    """The subjects of each reminder."""
    payloads = [json.loads(each.payload) for each in Notice.objects.filter(event="incident.reminder").order_by("pk")]
    assert all(each["type"] in ("incident.reminder", "incidents.reminder") for each in payloads)
    return [[one["subject"] for one in each["data"].get("incidents", [each["data"]])] for each in payloads]


def reminders_after(clock: Clock, wait: timedelta) -> list[list[str]]:
    clock.now += wait
    incidents.notify_later(clock.now)
    return reminders()


def test_critical_alerts_are_reported_again_at_the_interval(clock: Clock) -> None:
    report(clock, "trestle", "twilio")
    report(clock, "slow", kind=WARNING)
    assert reminders_after(clock, 4 * HOUR - timedelta(seconds=1)) == []
    assert reminders_after(clock, timedelta(seconds=1)) == [["trestle", "twilio"]]
    assert reminders_after(clock, 3 * HOUR) == [["trestle", "twilio"]]
    assert reminders_after(clock, HOUR) == [["trestle", "twilio"]] * 2
    report(clock, "twilio")
    assert reminders_after(clock, 4 * HOUR)[2:] == [["twilio"]]


def test_acknowledged_and_muted_alerts_have_no_reminders(clock: Clock) -> None:
    report(clock, "acknowledged", "muted", "trestle")
    incidents.acknowledge(incident=Incident.objects.get(subject="acknowledged"), by="olga")
    mutes.mute(kind=CRITICAL, subject="muted", until=clock.now + 5 * HOUR, by="olga")
    assert reminders_after(clock, 4 * HOUR) == [["trestle"]]
    incidents.withdraw_acknowledgement(Incident.objects.get(subject="acknowledged"))
    assert reminders_after(clock, HOUR)[1:] == [["acknowledged", "muted"]]


def test_reminder_counts_from_the_notice_that_a_mute_delayed(clock: Clock) -> None:
    mutes.mute(kind=CRITICAL, subject="", until=clock.now + 3 * HOUR, by="olga")
    report(clock, "twilio")
    assert reminders_after(clock, 3 * HOUR) == []
    assert reminders_after(clock, 2 * HOUR) == []
    assert reminders_after(clock, 2 * HOUR) == [["twilio"]]


def test_reminders_can_be_turned_off(clock: Clock, settings: Any) -> None:
    settings.ALERT_REMIND_AFTER_H = 0
    report(clock, "twilio")
    assert reminders_after(clock, 1_000 * HOUR) == []


def test_reminder_that_is_no_longer_due_is_not_sent(clock: Clock, mailbox: Mailbox) -> None:
    report(clock, "ended", "handled", "twilio")
    assert list(notices.send_due()) == ["sent"]
    reminders_after(clock, 4 * HOUR)
    report(clock, "handled", "twilio")
    incidents.acknowledge(incident=Incident.objects.get(subject="handled"), by="olga")
    assert list(notices.send_due()) == ["sent", "sent"]
    assert [message["Subject"] for message in mailbox.messages[1:]] == [
        "[Caller ID] Reminder: Wrong: twilio",
        "[Caller ID] Resolved: Wrong: ended",
    ]


@pytest.mark.django_db(transaction=True)
def test_concurrent_checkers_remind_once(clock: Clock) -> None:
    report(clock, "trestle", "twilio")
    clock.now += 4 * HOUR
    in_threads(4, lambda: incidents.notify_later(clock.now))
    assert sorted(name for names in reminders() for name in names) == ["trestle", "twilio"]
