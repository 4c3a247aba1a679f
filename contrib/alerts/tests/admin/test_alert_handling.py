"""Operators acknowledge alerts, and mute them for a time."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from contrib.alerts import checking, incidents, mutes
from contrib.alerts.models import AlertMute, Incident
from monitoring import task_runs
from monitoring.health.registry import Condition
from tests.accounts.admin.pages import history
from tests.console_pages import table, words

pytestmark = pytest.mark.django_db

ALERTS = "/admin/alerts/incident/"
Staff = Callable[..., Client]


@pytest.fixture(autouse=True)
def alerts_on(settings: Any, db: None) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    task_runs.record(checking.TASK, succeeded=True)


@pytest.fixture
def operator(staff: Staff) -> Client:
    """The user `support`."""
    return staff("view_incident", "handle_incident")


def report(*subjects: str, kind: str = "source.failing") -> None:
    conditions = [Condition(kind, name, f"Source failing: {name}", "It fails.") for name in subjects]
    incidents.report(conditions=conditions, kinds={kind: False}, now=timezone.now())


def opened(subject: str = "twilio", **options: Any) -> Incident:
    report(subject, **options)
    return Incident.objects.get(subject=subject)


def url(incident: Incident, page: str = "change") -> str:
    return f"{ALERTS}{incident.pk}/{page}/"


def post(client: Client, incident: Incident, page: str, **data: str) -> str:
    """The words of the page that follows."""
    return words(client.post(url(incident, page), data, follow=True).text)


# --- Acknowledge -------------------------------------------------------------------------------------------------


def test_acknowledged_alert_names_who_looks_after_it(operator: Client) -> None:
    incident = opened()
    text = post(operator, incident, "acknowledge", reason="Called the vendor.")
    assert re.search(r"by support at 20\S+ \S+ UTC: Called the vendor\.", text)
    listed = words(operator.get(ALERTS, {"state": "acknowledged"}).text)
    assert "acknowledged by support" in listed
    assert history() == [("support", "Acknowledged. Reason: Called the vendor.")]
    assert "/acknowledge/" not in operator.get(url(incident)).text


def test_acknowledgement_can_be_withdrawn(operator: Client) -> None:
    incident = opened()
    post(operator, incident, "acknowledge", reason="Called the vendor.")
    text = post(operator, incident, "withdraw-acknowledgement")
    assert "Called the vendor." not in text
    assert "/acknowledge/" in operator.get(url(incident)).text
    assert history()[-1] == ("support", "Acknowledgement withdrawn.")
    assert "is not acknowledged" in post(operator, incident, "withdraw-acknowledgement")


def test_ended_or_acknowledged_alert_is_not_acknowledged_again(operator: Client, admin_client: Client) -> None:
    incident = opened()
    post(operator, incident, "acknowledge")
    assert "is acknowledged already" in post(admin_client, incident, "acknowledge")
    assert Incident.objects.get().acknowledged_by == "support"
    Incident.objects.update(acknowledged_at=None, acknowledged_by="", closed_at=timezone.now())
    assert "has ended" in post(operator, incident, "acknowledge")
    assert "/acknowledge/" not in operator.get(url(incident)).text
    assert Incident.objects.get().acknowledged_at is None


def test_several_alerts_are_acknowledged_at_once(operator: Client) -> None:
    report("ended")
    report("one", "taken", "two")
    post(operator, Incident.objects.get(subject="taken"), "acknowledge")
    selected = {"action": "acknowledge_selected", "_selected_action": [str(each.pk) for each in Incident.objects.all()]}
    text = words(operator.post(ALERTS, selected, follow=True).text)
    assert "Acknowledged: 2. Skipped, because they have ended or are acknowledged already: 2." in text
    assert history() == [("support", "Acknowledged.")] * 3
    assert Incident.objects.filter(acknowledged_by="support").count() == 3


def test_dashboard_lists_critical_alerts_first(admin_client: Client) -> None:
    report("ftc", kind="data.stale")
    report("trestle", "twilio")
    post(admin_client, Incident.objects.get(subject="twilio"), "acknowledge")
    rows = [row[0] for row in table(admin_client.get("/admin/").text, "Open alerts")]
    assert [re.findall(r"failing: (\w+)", row)[0] for row in rows] == ["twilio", "trestle", "ftc"]
    assert ["Acknowledged by admin." in row for row in rows] == [True, False, False]


def test_pause_page_says_what_becomes_of_open_alerts(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A = "tests.connectors.KnowsName"
    page = f"/admin/monitoring/source/{settings.SOURCE_A}/pause/"
    text = "Its open alerts end with the pause. They open again when it is resumed, until it works."
    assert text not in words(admin_client.get(page).text)
    report(settings.SOURCE_A)
    assert text in words(admin_client.get(page).text)
    assert text not in words(admin_client.get(page.replace("pause", "check-now")).text)


# --- Mute --------------------------------------------------------------------------------------------------------


def test_muted_alert_is_marked_until_its_mute_ends(operator: Client) -> None:
    incident = opened()
    text = post(operator, incident, "mute", hours="8", reason="Maintenance of the vendor.")
    until = f"{timezone.now() + timedelta(hours=8):%Y-%m-%d}"
    assert f"Muted until {until}" in text
    assert re.search(r"Source failing: twilio, until \S+ \S+ UTC, by support : Maintenance .* End mute", text)
    mute = AlertMute.objects.get()
    assert (mute.kind, mute.subject, mute.created_by) == ("source.failing", "twilio", "support")
    for page in (ALERTS, "/admin/"):
        assert "uted until 20" in words(operator.get(page).text)
    listed = words(operator.get(ALERTS).text)
    assert re.search(r"Source failing: twilio, until \S+ \S+ UTC, by support : Maintenance of the vendor\.", listed)
    end = f"{ALERTS}end-mute/?mute={mute.pk}"
    assert end in operator.get(ALERTS).text
    assert f'<option value="{mute.pk}" selected' in operator.get(end).text
    assert "Mute ended: Source failing: twilio." in operator.post(end, {"mute": mute.pk}, follow=True).text
    assert "uted until" not in words(operator.get(ALERTS).text)
    assert [message for _, message in history()] == [
        f"Muted until {mute.until:%Y-%m-%d %H:%M} UTC. Reason: Maintenance of the vendor.",
        "Mute ended.",
    ]


def test_all_alerts_of_a_kind_can_be_muted(operator: Client) -> None:
    incident = opened()
    assert 'All alerts of the kind "Sources are failing"' in words(operator.get(url(incident, "mute")).text)
    muted = post(operator, incident, "mute", hours="1", all_of_kind="on")
    assert 'All alerts of the kind "Sources are failing" are muted' in muted
    assert "Sources are failing (source.failing)" in muted
    assert 'All alerts of the kind "Sources are failing", until' in muted
    listed = words(operator.get(ALERTS).text)
    assert 'All alerts of the kind "Sources are failing", until' in listed
    assert "source.failing" not in listed
    assert AlertMute.objects.get().subject == ""
    assert "Select a valid choice" in post(operator, incident, "mute", hours="9999")
    assert AlertMute.objects.count() == 1


def test_ended_alert_offers_nothing_but_the_way_back(operator: Client) -> None:
    incident = opened()
    assert "/mute/" in operator.get(url(incident)).text
    mutes.mute(kind="source.failing", subject="", until=timezone.now() + timedelta(hours=1), by="olga")
    report()
    text = operator.get(url(incident)).text
    assert not any(page in text for page in ("/mute/", "/acknowledge/", "/end-mute/"))
    assert "Back to alerts" in words(text)


def test_list_links_the_recipients_for_those_who_may_view_them(staff: Staff, admin_client: Client) -> None:
    assert 'alertrecipient/">Alert recipients</a>' in admin_client.get(ALERTS).text
    assert ">Alert recipients</a>" not in staff("view_incident").get(ALERTS).text


def test_viewers_see_mutes_and_cannot_end_them(staff: Staff) -> None:
    report("twilio")
    mutes.mute(kind="source.failing", subject="twilio", until=timezone.now() + timedelta(hours=1), by="olga")
    text = staff("view_incident").get(ALERTS).text
    assert "Source failing: twilio, until" in text
    assert "end-mute" not in text
