"""The Alerts page: open and past alerts, what was sent about each, and the test alert."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken, Customer
from contrib.alerts import checking, incidents, mutes
from contrib.alerts.admin.incidents import IncidentAdmin
from contrib.alerts.models import Incident, Notice
from monitoring import task_runs
from monitoring.health.registry import Condition, Effect
from monitoring.models import TaskRun
from tests.accounts.admin.pages import history, query_count
from tests.console_pages import words

pytestmark = pytest.mark.django_db

ALERTS, NOTICES = "/admin/alerts/incident/", "/admin/alerts/notice/"
Staff = Callable[..., Client]


@pytest.fixture(autouse=True)
def alerts_on(settings: Any, db: None) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    settings.ALERT_WEBHOOK_URLS = ["https://hooks.example.org/path-is-secret"]
    task_runs.record(checking.TASK, succeeded=True)


def report(*subjects: str, kind: str = "source.failing") -> None:
    conditions = [Condition(kind, name, f"Source failing: {name}", "It fails.", "Correct it.") for name in subjects]
    incidents.report(conditions=conditions, kinds={kind: False}, now=timezone.now())


def titles(client: Client, **query: str) -> list[str]:
    return re.findall(r"Source failing: (\w+)", client.get(ALERTS, query).text)


def page(client: Client, incident: Incident) -> str:
    return client.get(f"{ALERTS}{incident.pk}/change/").text


def test_list_is_filtered_by_state_and_kind(admin_client: Client) -> None:
    report("twilio", "trestle")
    report("trestle")
    report("ftc", kind="data.stale")
    assert titles(admin_client) == ["trestle", "ftc", "twilio"]
    assert set(titles(admin_client, state="open")) == {"ftc", "trestle"}
    assert titles(admin_client, state="resolved") == ["twilio"]
    assert titles(admin_client, kind="data.stale") == ["ftc"]
    assert titles(admin_client, severity="warning") == ["ftc"]
    assert titles(admin_client, severity="critical") == ["trestle", "twilio"]


def test_alert_of_a_paused_source_is_not_called_resolved(admin_client: Client) -> None:
    report("twilio")
    paused = Condition("source.failing", "twilio", "", effect=Effect.ENDED, ended_because="the source is paused")
    incidents.report(conditions=[paused], kinds={"source.failing": False}, now=timezone.now())
    assert titles(admin_client, state="resolved") == []
    assert titles(admin_client, state="ended") == ["twilio"]
    for text in (admin_client.get(ALERTS).text, page(admin_client, Incident.objects.get())):
        assert "ended the source is paused" in words(text)
    assert "Alert ended: the source is paused" in page(admin_client, Incident.objects.get())
    assert "(ended: the source is paused)" in words(admin_client.get(NOTICES).text)


def test_most_urgent_open_alerts_are_first_on_every_page(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The resolved one is newer than all others."""
    monkeypatch.setattr(IncidentAdmin, "list_per_page", 2)
    report("old", kind="searches.degraded")
    for names in (["one"], ["one", "two"]):
        report(*names)
    for subject in ("ftc", "1", "new", "ended"):
        report(
            subject,
            kind={"ftc": "data.stale", "1": "token.expiring", "new": "task.overdue"}.get(subject, "clock.wrong"),
        )
    report(kind="clock.wrong")
    hour_ago = timezone.now() - timedelta(hours=1)
    Incident.objects.filter(subject="new").update(opened_at=hour_ago)  # its condition began last, and it opened first
    mutes.mute(kind="data.stale", subject="", until=timezone.now() + timedelta(hours=1), by="maria")
    pages = [titles(admin_client, p=str(number)) for number in (1, 2, 3, 4)]
    assert pages == [["two", "one"], ["old", "new"], ["ftc", "1"], ["ended"]]
    assert "newest first" not in words(admin_client.get(ALERTS).text)
    assert admin_client.get(f"{ALERTS}{Incident.objects.get(subject='one').pk}/change/").text.count("critical") == 1


def test_titles_isolate_names_written_from_right_to_left(admin_client: Client) -> None:
    name = "מרפאה ברחוב"
    report(name)
    title = f'<bdi dir="ltr">Source failing: {name}</bdi>'
    for url in (ALERTS, f"{ALERTS}{Incident.objects.get().pk}/change/", NOTICES, "/admin/"):
        assert title in admin_client.get(url).text, url


def test_conditions_that_have_not_lasted_are_not_listed(admin_client: Client) -> None:
    incidents.report(
        conditions=[Condition("source.failing", "twilio", "Source failing: twilio")],
        kinds={"source.failing": True},
        now=timezone.now(),
    )
    assert Incident.objects.count() == 1
    assert titles(admin_client) == []
    assert admin_client.get(f"{ALERTS}{Incident.objects.get().pk}/change/").status_code == 302


def test_page_shows_what_was_sent_and_where_to_look(admin_client: Client) -> None:
    report("twilio")
    incident = Incident.objects.get()
    text = page(admin_client, incident)
    assert text.partition("<title>")[2].partition("</title>")[0].count(incident.title) == 1
    for shown in (
        "It fails.",
        "Correct it.",
        "ops@example.org",
        "hooks.example.org (",
        "/monitoring/source/twilio/change/",
    ):
        assert shown in text
    assert "path-is-secret" not in text
    for notice in Notice.objects.all():
        assert f"{NOTICES}{notice.pk}/change/" in text


def test_alert_about_a_token_links_the_token_and_its_top_up(admin_client: Client, token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(customer=Customer.objects.create(name="Harbour"))
    links = {}
    for kind in ("token.out_of_credits", "token.expiring"):
        report(str(token.pk), kind=kind)
        text = page(admin_client, Incident.objects.get(kind=kind))
        links[kind] = re.findall(rf'href="/admin/accounts/apitoken/{token.pk}/([a-z-]+)', text)
        assert f"{token} of Harbour " in words(text)
    assert links == {"token.out_of_credits": ["change", "top-up"], "token.expiring": ["change"]}
    assert f"/apitoken/{token.pk}/top-up" in admin_client.get("/admin/").text


def test_page_shows_only_what_the_user_may_view(staff: Staff) -> None:
    report("twilio")
    text = page(staff("view_incident"), Incident.objects.get())
    assert "It fails." in text
    assert not any(hidden in text for hidden in ("ops@example.org", "/monitoring/source/", NOTICES))


def test_notices_show_their_alert_and_message(admin_client: Client) -> None:
    report("twilio")
    listed = admin_client.get(NOTICES).text
    assert "ops@example.org" in listed
    assert listed.count("Source failing: twilio</bdi> (opened)") == 2
    webhook = Notice.objects.get(channel="webhook")
    text = admin_client.get(f"{NOTICES}{webhook.pk}/change/").text
    assert "incident.opened" in text
    assert "path-is-secret" not in text


def test_test_alert_is_queued_and_recorded(admin_client: Client) -> None:
    text = admin_client.post(f"{ALERTS}send-test/", follow=True).text
    assert "Test alert queued" in text
    assert list(Notice.objects.order_by("channel").values_list("event", "channel")) == [
        ("alert.test", "email"),
        ("alert.test", "webhook"),
    ]
    assert len(history()) == 2
    assert admin_client.get(f"{ALERTS}send-test/").status_code == 200
    assert len(history()) == 2


def test_test_alert_needs_alerts_and_the_permission(staff: Staff, admin_client: Client, settings: Any) -> None:
    assert staff("view_incident").post(f"{ALERTS}send-test/").status_code == 403
    settings.ALERT_EMAILS = settings.ALERT_WEBHOOK_URLS = []
    assert "Alerts are off." in admin_client.post(f"{ALERTS}send-test/", follow=True).text
    assert "send-test" not in admin_client.get(ALERTS).text
    assert Notice.objects.count() == 0


def test_list_says_when_nobody_checks(admin_client: Client, settings: Any) -> None:
    TaskRun.objects.all().delete()
    assert "Alerts are not checked." in admin_client.get(ALERTS).text
    task_runs.record(checking.TASK, succeeded=True)
    text = admin_client.get(ALERTS).text
    assert "Last checked 20" in text
    assert "Alerts are not checked." not in text
    TaskRun.objects.update(succeeded_at=timezone.now() - checking.OVERDUE - timedelta(seconds=1))
    assert "Alerts are not checked." in admin_client.get(ALERTS).text
    settings.ALERT_EMAILS = settings.ALERT_WEBHOOK_URLS = []
    assert "Alerts are off." in admin_client.get(ALERTS).text


def test_lists_and_pages_have_a_constant_number_of_queries(admin_client: Client) -> None:
    report("first")
    urls = (ALERTS, NOTICES, f"{ALERTS}{Incident.objects.get().pk}/change/")
    for url in urls:
        admin_client.get(url)  # Django keeps the content types
    few = [query_count(admin_client, url) for url in urls]
    report("first", *(f"source{n}" for n in range(20)))
    assert [query_count(admin_client, url) for url in urls] == few
