"""The dashboard's first block: one sentence, by hours where nothing knows the minutes, and the pauses."""

from datetime import datetime
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from core.hooks import Hook
from lookup.models import SourcePause
from monitoring import service_status
from tests.console.dashboard_rows import NOW, count_requests
from tests.console.role_table import logged_in
from tests.console_pages import words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
URL = "/admin/status/"


@pytest.fixture
def by_minute(monkeypatch: pytest.MonkeyPatch) -> Hook[str]:
    """What is registered, which is empty."""
    hook = Hook[str]()
    monkeypatch.setattr(service_status, "OUTCOMES_BY_MINUTE", hook)
    return hook


def of_minutes(since: datetime, outcomes: Any) -> list[tuple[datetime, str, int]]:
    assert "test" not in outcomes
    return [(NOW.replace(second=0), "found_one", 30)]


def off(since: datetime, outcomes: Any) -> None:
    return None


def late(since: datetime, outcomes: Any) -> None:
    raise OperationalError


def test_without_minutes_the_hours_are_used(admin_client: Client, by_minute: Hook[str]) -> None:
    count_requests("found_one", 160)
    for registered in ((), (f"{__name__}.off",)):
        by_minute.add(*registered)
        text = admin_client.get(URL).text
        assert "Working: 2 requests a minute in the last 81 minutes, 100\N{NO-BREAK SPACE}% answered" in text
        assert "requests are not logged" in text
        assert "<svg" not in text


def test_minutes_are_those_of_what_knows_them(admin_client: Client, by_minute: Hook[str]) -> None:
    by_minute.add(f"{__name__}.off", f"{__name__}.of_minutes")
    text = admin_client.get(URL).text
    assert "Working: 3 requests a minute in the last 10 minutes" in text
    assert "peak: 30 a minute" in text


def test_timed_out_query_falls_back_to_the_hours(admin_client: Client, by_minute: Hook[str]) -> None:
    count_requests("found_one", 160)
    by_minute.add(f"{__name__}.late")
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
