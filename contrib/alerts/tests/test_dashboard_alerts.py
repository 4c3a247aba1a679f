"""The dashboard's list of open alerts."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import ApiToken
from contrib.alerts import checking, mutes
from contrib.alerts.models import Incident
from monitoring import task_runs
from monitoring.models import TaskRun
from phonebook.imports.numbering_plan import NUMBERING_PLAN
from phonebook.models import Dataset
from tests.console.dashboard_rows import (
    NOW,
    URL,
    add_result,
    configure,
    count_calls,
    count_requests,
    issue_long_ago,
)
from tests.console.test_dashboard_sources import sources_finding
from tests.console_pages import table, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
ALERTS = "/admin/alerts/incident/"
SEEN = {"first_seen_at": NOW, "last_seen_at": NOW}


def test_open_alerts_are_listed_with_what_to_do(admin_client: Client, settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    task_runs.record(checking.TASK, succeeded=True)
    assert 'aria-label="Open alerts"' not in admin_client.get(URL).text
    values = {"kind": "source.failing", "hint": "Check the key.", **SEEN}
    for n in range(12):
        Incident.objects.create(subject=f"s{n}", title=f"Source failing: s{n}", opened_at=NOW, **values)
    Incident.objects.create(subject="pending", title="Source failing: pending", **values)
    Incident.objects.create(subject="past", title="Source failing: past", opened_at=NOW, closed_at=NOW, **values)
    text = admin_client.get(URL).text
    assert set(re.findall(r"Source failing: (\w+)", text)) == {f"s{n}" for n in range(2, 12)}
    assert "Check the key." in text
    assert "/admin/monitoring/source/s11/change/" in text
    assert "All open alerts" in text


def test_many_alerts_about_tokens_do_not_hide_a_failing_source(admin_client: Client, settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    task_runs.record(checking.TASK, succeeded=True)

    def opened(kind: str, subject: str, title: str, minutes_ago: int) -> None:
        at = NOW - timedelta(minutes=minutes_ago)
        Incident.objects.create(kind=kind, subject=subject, title=title, opened_at=at, **SEEN)

    opened("source.failing", "twilio", "Source failing: twilio", 30)
    opened("data.stale", "ftc", "Complaint data is stale: ftc", 20)
    for number in range(12):
        opened("token.running_out", str(number), f"pbx {number} runs out on 12 March", 10)
    for subject in ("1", "2", "others"):
        opened("token.expiring", subject, f"pbx {subject} expires on 12 March", 5)
    for number in (7, 8):
        opened("token.out_of_credits", str(number), f"pbx {number} is out of credits", 1)
    mutes.mute(kind="token.expiring", subject="", until=NOW + timedelta(hours=1), by="olga")
    text = admin_client.get(URL).text
    rows = [row[0] for row in table(text, "Open alerts")]
    assert [" ".join(row.split()[:7]) for row in rows] == [
        "Critical: Source failing: twilio Source twilio",
        "Warning: Complaint data is stale: ftc Sources",
        "Warning: 2 tokens in use are out",
        "Warning: 12 tokens will run out of",
        "Warning: More than 2 tokens expire soon",
    ]
    assert "pbx 11 runs out on 12 March" in rows[3]
    assert ["(muted)" in row for row in rows] == [False, False, False, False, True]


def test_tokens_that_stop_first_are_listed_first(admin_client: Client, settings: Any) -> None:
    """The alert about the token that expired opened first."""
    settings.ALERT_EMAILS = ["ops@example.org"]
    task_runs.record(checking.TASK, succeeded=True)
    for name, days, kind in (
        *(("later", 3, "token.expiring"), ("gone", -1, "token.expiring"), ("next", 1, "token.expiring")),
        ("empty", 9, "token.out_of_credits"),
    ):
        token = issue_long_ago(name, 0 if name == "empty" else 5)
        ApiToken.objects.filter(pk=token.pk).update(expires_at=NOW + timedelta(days=days))
        Incident.objects.create(kind=kind, subject=str(token.pk), title=f"About {name}", opened_at=NOW, **SEEN)
    text = admin_client.get(URL).text
    assert re.findall(r"About (\w+)", text) == ["gone", "next", "later", "empty"]
    attention = words(text.partition("Needs attention")[2])
    assert attention.index("out of credits") < attention.index("API tokens expire within 7 days")


def test_critical_checks_come_before_the_others(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A = "geography"
    Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    count_requests("found_one", 50)
    count_requests("failed", 50)
    text = words(admin_client.get(URL).text)
    assert text.index("Searches: unhealthy") < text.index("Numbering plan: unhealthy")


def test_critical_alerts_come_before_other_checks(admin_client: Client, settings: Any) -> None:
    settings.ALERT_EMAILS, settings.ALLOWED_HOSTS = ["ops@example.org"], ["*"]
    task_runs.record(checking.TASK, succeeded=True)
    Incident.objects.create(kind="source.failing", subject="twilio", title="Failing: twilio", opened_at=NOW, **SEEN)
    text = words(admin_client.get(URL).text)
    assert text.index("Critical: Failing: twilio") < text.index("Proxy: unhealthy")


def test_dashboard_says_when_alerts_are_off_or_unchecked(admin_client: Client, settings: Any) -> None:
    assert "Alerts are off." in admin_client.get(URL).text
    Incident.objects.create(kind="source.failing", subject="twilio", title="Failing", opened_at=NOW, **SEEN)
    settings.ALERT_EMAILS = ["ops@example.org"]
    assert "Alerts are not checked: run ./run manage send_notices every minute." in admin_client.get(URL).text


def test_unchecked_alerts_are_not_shown_as_true(admin_client: Client, settings: Any) -> None:
    for kind, subject in (("source.failing", "twilio"), ("token.expiring", "7"), ("clock.wrong", "host-1")):
        Incident.objects.create(kind=kind, subject=subject, title=f"About {subject}", opened_at=NOW, **SEEN)

    def shown() -> list[str]:
        return re.findall(r"About ([\w-]+)", admin_client.get(URL).text)

    assert shown() == ["host-1"]  # serving processes report it without send_notices
    settings.ALERT_EMAILS = ["ops@example.org"]
    assert shown() == ["host-1"]
    task_runs.record(checking.TASK, succeeded=True)
    assert shown() == ["twilio", "host-1", "7"]
    settings.ALERT_EMAILS = []
    incident = Incident.objects.get(subject="twilio")
    assert "This alert may be out of date" in admin_client.get(f"{ALERTS}{incident.pk}/change/").text
    assert "Open alerts below may be out of date." in admin_client.get(ALERTS).text


def test_failing_searches_need_attention_without_alerts(admin_client: Client) -> None:
    count_requests("found_one", 50)
    count_requests("failed", 50)
    TaskRun.objects.create(name=task_runs.PRUNE, succeeded_at=NOW - timedelta(days=9))
    attention = words(admin_client.get(URL).text.partition("Needs attention")[2].partition("<details")[0])
    assert "Searches: unhealthy Searches fail. 50 of 100 searches were answered with 500." in attention
    assert "Maintenance overdue: prune" in attention
    assert "needs attention." not in attention


def test_stale_data_needs_attention_without_alerts(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A = "geography"
    Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    TaskRun.objects.create(name="audit_credits", failed_at=NOW)
    text = words(admin_client.get(URL).text.partition("Needs attention")[2].partition("<details")[0])
    for found in ("Numbering plan is not current",):
        assert found in text
    assert "Balances and the ledger disagree" in text
    assert "needs attention." not in text


def test_open_alert_is_not_repeated_by_the_check(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    settings.ALERT_EMAILS, settings.ALERT_OPEN_AFTER_MIN = ["ops@example.org"], 0
    add_result("auth", seconds_ago=10, connector="tests.connectors.RemoteKnows")
    assert "Source failing" in sources_finding(admin_client)
    checking.check()
    text = admin_client.get(URL).text
    assert text.count("Last failure: auth") == 1
    assert "Sources: unhealthy" not in text
    TaskRun.objects.update(succeeded_at=NOW - timedelta(days=1))
    assert "Source failing" in sources_finding(admin_client)


def test_status_says_since_when_a_source_is_failing(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    name = "tests.connectors.RemoteKnows"
    add_result("auth", seconds_ago=120, connector=name)
    count_calls("auth", 4)
    began = {"first_seen_at": NOW - timedelta(hours=1), "last_seen_at": NOW}
    Incident.objects.create(kind="source.failing", subject=name, title="Source failing", **began)
    assert f"{name} is failing since 13:20" in words(admin_client.get("/admin/status/").text)
    page = words(admin_client.get(f"/admin/monitoring/source/{name}/change/").text)
    assert "Since 2026-03-09 13:20 UTC." in page


def test_links_of_earlier_notices_lead_to_the_alert(admin_client: Client) -> None:
    values = {"kind": "data.stale", "subject": "ftc", "title": "Complaint data is stale"}
    incident = Incident.objects.create(**values, opened_at=NOW, **SEEN)
    for rest in (f"{incident.pk}/change/", "?kind=data.stale"):
        response = admin_client.get(f"/admin/monitoring/incident/{rest}", follow=True)
        assert response.redirect_chain == [(f"{ALERTS}{rest}", 302)]
        assert "Complaint data is stale" in response.text
