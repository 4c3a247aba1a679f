"""A host whose clock differs opens an alert about itself alone, and closes it."""

import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from monitoring import clocks
from monitoring.models import Incident

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no other clock"),
]


def report(monkeypatch: pytest.MonkeyPatch, host: str, *, ahead_s: float) -> None:
    real = time.time
    with monkeypatch.context() as patched:
        patched.setattr("monitoring.clocks.socket.gethostname", lambda: host)
        patched.setattr("monitoring.clocks.time.time", lambda: real() + ahead_s)
        clocks.report()


def named() -> set[str]:
    return {incident.subject for incident in Incident.objects.filter(opened_at__isnull=False, closed_at=None)}


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


def test_alert_about_a_host_that_is_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    report(monkeypatch, "web1", ahead_s=60.0)
    report(monkeypatch, "web2", ahead_s=0.0)
    assert named() == {"web1"}
    Incident.objects.update(last_seen_at=timezone.now() - clocks.GONE - timedelta(minutes=1))
    report(monkeypatch, "web2", ahead_s=0.0)
    assert named() == set()
