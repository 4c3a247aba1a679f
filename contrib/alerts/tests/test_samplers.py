"""What serving processes report: a host whose clock differs, about itself alone, and client addresses."""

import time
from contextlib import suppress
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from contrib.alerts import samplers
from contrib.alerts.models import Incident
from monitoring.health import forwarding

pytestmark = pytest.mark.django_db
has_clock = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no other clock")


def report(monkeypatch: pytest.MonkeyPatch, host: str, *, ahead_s: float) -> None:
    real = time.time
    with monkeypatch.context() as patched:
        patched.setattr("contrib.alerts.samplers.socket.gethostname", lambda: host)
        patched.setattr("monitoring.clocks.time.time", lambda: real() + ahead_s)
        samplers.report_clock()


def named() -> set[str]:
    return {incident.subject for incident in Incident.objects.filter(opened_at__isnull=False, closed_at=None)}


@has_clock
def test_each_host_reports_its_own_clock(monkeypatch: pytest.MonkeyPatch, admin_client: Client) -> None:
    for host, ahead_s in {"web1": -3600.0, "web2": 0.0, "web3": 0.7, "web4": 5.0}.items():
        report(monkeypatch, host, ahead_s=ahead_s)
    assert named() == {"web1", "web4"}
    text = admin_client.get("/admin/").text
    assert "The clock of web1 is wrong" in text
    assert "The clock of web4 is wrong" in text
    report(monkeypatch, "web1", ahead_s=0.0)
    report(monkeypatch, "web4", ahead_s=0.7)  # between both limits the alert stays
    assert named() == {"web4"}
    (incident,) = Incident.objects.filter(subject="web1")
    assert abs(incident.first_seen_at - timezone.now()) < timedelta(minutes=10)  # by the database's clock


@has_clock
def test_alert_about_a_host_that_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    report(monkeypatch, "web1", ahead_s=60.0)
    report(monkeypatch, "web2", ahead_s=0.0)
    assert named() == {"web1"}
    Incident.objects.update(last_seen_at=timezone.now() - samplers.GONE - timedelta(minutes=1))
    report(monkeypatch, "web2", ahead_s=0.0)
    assert named() == set()


@pytest.fixture
def proxy(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One proxy is trusted, and this process has received nothing from it yet."""
    settings.TRUSTED_PROXIES = 1
    monkeypatch.setattr(forwarding, "monitor", forwarding.ForwardingMonitor())


def doctor() -> str:
    text = StringIO()
    with suppress(SystemExit):
        call_command("doctor", stdout=text)
    return text.getvalue()


def test_unreadable_address_is_an_alert_of_all_hosts(proxy: None, admin_client: Client) -> None:
    samplers.report_client_addresses()
    assert "ok       Processes" in doctor()
    admin_client.get("/livez", headers={"X-Forwarded-For": "unknown"})
    samplers.report_client_addresses()
    assert "PROBLEM  Processes       Client addresses cannot be read." in doctor()
    page = admin_client.get("/admin/", headers={"X-Forwarded-For": "198.51.100.7"}).text
    assert page.count("Client addresses cannot be read") == 1  # as an alert, and not as a finding of its check


def test_alert_about_addresses_ends_when_all_can_be_read(proxy: None, client: Client) -> None:
    client.get("/livez", headers={"X-Forwarded-For": "unknown"})
    samplers.report_client_addresses()
    forwarding.monitor = forwarding.ForwardingMonitor()  # another process, which can read them
    samplers.report_client_addresses()
    assert Incident.objects.filter(opened_at__isnull=False, closed_at=None).exists()
    Incident.objects.update(last_seen_at=timezone.now() - samplers.GONE - timedelta(minutes=1))
    samplers.report_client_addresses()
    assert not Incident.objects.filter(closed_at=None).exists()
