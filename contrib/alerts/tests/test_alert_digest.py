"""Several alerts of one kind that open, or end, in one check are reported together."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from contrib.alerts import incidents, notices
from contrib.alerts.models import Incident, Notice
from monitoring.health.registry import Condition
from tests.monitoring.concurrency import in_threads
from tests.smtp import Mailbox

pytestmark = pytest.mark.django_db

KINDS = {"source.failing": False, "source.slow": False}


@pytest.fixture(autouse=True)
def by_email(settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]


def report(count: int, *, kind: str = "source.failing") -> tuple[int, int]:
    conditions = [Condition(kind, f"s{n:02}", f"Source failing: s{n:02}") for n in range(count)]
    return incidents.report(conditions=conditions, kinds=KINDS, now=timezone.now())


def text(mailbox: Mailbox, index: int = -1) -> str:
    """The plain text."""
    return str(mailbox.messages[index].get_body(("plain",)).get_content()).replace("\r\n", "\n")  # type: ignore[union-attr]


def test_many_alerts_of_a_kind_make_one_message(mailbox: Mailbox) -> None:
    assert report(42) == (42, 0)
    assert list(notices.send_due()) == ["sent"]
    assert mailbox.messages[0]["Subject"] == "[Caller ID] 42 sources are failing"
    assert "- Source failing: s19\n\nAnd 22 more.\n\nSeverity: critical\nSince " in text(mailbox)
    assert report(0) == (0, 42)
    assert list(notices.send_due()) == ["sent"]
    assert mailbox.messages[1]["Subject"] == "[Caller ID] Resolved: 42 sources are failing"
    assert text(mailbox).startswith("These alerts have ended.\n\n- Source failing: s00\n")


def test_each_kind_has_a_message_of_its_own() -> None:
    report(2)
    assert report(3, kind="source.slow") == (3, 2)
    payloads = [json.loads(each.payload) for each in Notice.objects.order_by("pk")]
    assert [(each["type"], each["data"]["kind"], each["data"]["count"]) for each in payloads] == [
        ("incidents.opened", "source.failing", 2),
        ("incidents.opened", "source.slow", 3),
        ("incidents.resolved", "source.failing", 2),
    ]
    assert [each["subject"] for each in payloads[0]["data"]["incidents"]] == ["s00", "s01"]


def test_alerts_that_ended_are_left_out_of_the_message(mailbox: Mailbox) -> None:
    report(3)
    Incident.objects.filter(subject="s00").update(closed_at=timezone.now())
    assert list(notices.send_due()) == ["sent"]
    assert "s00" not in text(mailbox)
    assert mailbox.messages[0]["Subject"] == "[Caller ID] 2 sources are failing"
    Notice.objects.update(due_at=timezone.now())
    Incident.objects.filter(subject="s01").update(closed_at=timezone.now())
    list(notices.send_due())
    assert mailbox.messages[1]["Subject"] == "[Caller ID] Source failing: s02"


def test_no_message_is_sent_if_all_have_ended(mailbox: Mailbox) -> None:
    report(2)
    Incident.objects.update(closed_at=timezone.now())
    assert list(notices.send_due()) == ["not needed"]
    assert mailbox.messages == []


def test_notice_about_several_belongs_to_each_of_them() -> None:
    report(2)
    report(0)
    for incident in Incident.objects.all():
        events = incidents.notices_about(incident).order_by("pk").values_list("event", flat=True)
        assert list(events) == ["incident.opened", "incident.resolved"]


def test_pages_show_a_notice_about_several(admin_client: Client) -> None:
    report(3)
    assert "Source failing: s00 and 2 more</bdi> (opened)" in admin_client.get("/admin/alerts/notice/").text
    for incident in Incident.objects.all():
        assert "ops@example.org" in admin_client.get(f"/admin/alerts/incident/{incident.pk}/change/").text


@pytest.mark.django_db(transaction=True)
def test_concurrent_checkers_report_each_alert_once() -> None:
    assert sum(opened for opened, _ in in_threads(4, lambda: report(5))) == 5
    assert sum(closed for _, closed in in_threads(4, lambda: report(0))) == 5
    reported = [
        (each.event, alert["subject"])
        for each in Notice.objects.all()
        for data in [json.loads(each.payload)["data"]]
        for alert in data.get("incidents", [data])
    ]
    assert sorted(reported) == [
        (event, f"s{n:02}") for event in ("incident.opened", "incident.resolved") for n in range(5)
    ]
