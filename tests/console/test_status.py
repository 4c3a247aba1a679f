"""The dashboard's first block: one sentence, by hours where nothing knows the last minutes, and the pauses."""

from datetime import datetime, timedelta

import pytest
from django.db import OperationalError
from django.test import Client

from core.hooks import Hook
from lookup.models import SourcePause
from monitoring import service_status
from monitoring.service_status import Recent, Requests
from tests.console.dashboard_rows import NOW, count_requests
from tests.console.role_table import logged_in
from tests.console_pages import words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
URL = "/admin/status/"


@pytest.fixture
def recent(monkeypatch: pytest.MonkeyPatch) -> Hook[str]:
    """What is registered, which is empty."""
    hook = Hook[str]()
    monkeypatch.setattr(service_status, "RECENT_REQUESTS", hook)
    return hook


def of_minutes(now: datetime) -> Recent:
    return Recent(now - timedelta(minutes=10), Requests(answered=30))


def off(now: datetime) -> None:
    return None


def late(now: datetime) -> None:
    raise OperationalError


def test_without_minutes_the_hours_are_used(admin_client: Client, recent: Hook[str]) -> None:
    count_requests("found_one", 160)
    for registered in ((), (f"{__name__}.off",)):
        recent.add(*registered)
        text = admin_client.get(URL).text
        assert "Working: 2 requests a minute in the last 81 minutes, 100\N{NO-BREAK SPACE}% answered" in text
        assert "requests are not logged" in text
        assert "<svg" not in text


def test_minutes_are_those_of_what_knows_them(admin_client: Client, recent: Hook[str]) -> None:
    recent.add(f"{__name__}.off", f"{__name__}.of_minutes")
    text = admin_client.get(URL).text
    assert "Working: 3 requests a minute in the last 10 minutes" in text


def test_timed_out_query_falls_back_to_the_hours(admin_client: Client, recent: Hook[str]) -> None:
    count_requests("found_one", 160)
    recent.add(f"{__name__}.late")
    text = admin_client.get(URL).text
    assert "Working: 2 requests a minute in the last 81 minutes" in text
    assert "Query timed out" in text


def test_auditor_sees_the_pause_without_its_link() -> None:
    SourcePause.objects.create(connector="tests.connectors.Knows", reason="r", paused_by="olga", paused_at=NOW)
    text = words(logged_in("auditor").get("/admin/").text)
    assert "paused by olga since 14:20: r." in text
    assert "Resume" not in text


def test_block_needs_the_permission_to_view_sources() -> None:
    assert logged_in("auditor").get(URL).status_code == 200
    refused = logged_in("staff")
    assert refused.get(URL).status_code == 403
    assert 'id="status"' not in refused.get("/admin/").text
