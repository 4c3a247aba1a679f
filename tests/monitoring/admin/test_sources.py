"""The Sources page: totals by source, in a fixed number of queries."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from core.cells import money
from monitoring.source_statistics import advice
from monitoring.templatetags.figures import milliseconds
from phonebook.imports import data_sets
from phonebook.models import Dataset
from tests.accounts.admin.pages import query_count
from tests.console.dashboard_rows import NOW, add_result, count_calls
from tests.console_pages import table

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_sources")]
URL = "/admin/monitoring/source/"
add, failed = partial(count_calls, connector="twilio"), partial(add_result, connector="twilio")


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW)


def rows(client: Client, **query: str) -> list[list[str]]:
    """Rows of sources that are not configured."""
    shown = table(client.get(URL, query).text, "Sources")
    return [row for row in shown if "tests.connectors" not in row[0]]


def test_source_has_one_row_per_slot(admin_client: Client) -> None:
    add("found", 60, total_us=1_200_000, ms_25=60)
    add("found", 30, total_us=600_000, ms_25=30, hours_ago=3)
    add("not_found", 8, total_us=4_000_000, ms_500=8)
    add("late", 2, total_us=6_000_000, ms_more=2)
    add("found", 1, slot="source_b", total_us=200, ms_1=1)
    first, second = rows(admin_client)
    assert first[:9] == [
        "twilio Source A, no longer configured",
        *("100", "90", "8", "2 late 2", "0", "118", "18", "406"),
    ]
    assert second[:9] == [
        "twilio Source B, no longer configured",
        *("1", "1", "0", "0", "0", "0.2", "0.5", "0.9"),
    ]


def test_answers_without_a_call_do_not_count_as_calls(admin_client: Client) -> None:
    add("cached_found", 50, total_us=50, ms_1=50)
    add("cached_not_found", 7, total_us=7, ms_1=7)
    add("breaker", 3, total_us=3, ms_1=3)
    add("busy", 2, total_us=2, ms_1=2)
    ((_, *row),) = rows(admin_client)
    assert row[:8] == ["0", "0", "0", "5 breaker 3, busy 2", "57", "-", "-", "-"]


def test_time_beyond_the_last_bucket_is_shown_as_over(admin_client: Client) -> None:
    add("late", 1, total_us=9_000_000, ms_more=1)
    (row,) = rows(admin_client)
    assert row[6:9] == ["9,000", "over 2,500", "over 2,500"]


def test_page_runs_a_fixed_number_of_queries(admin_client: Client) -> None:
    few = query_count(admin_client, URL)
    for number in range(30):
        add("found", 1, connector=f"source {number}")
    assert query_count(admin_client, URL) == few


def test_complaint_data_is_listed_with_its_age(
    admin_client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_sets, "published", list)
    assert "Complaint data" not in admin_client.get(URL).text
    monkeypatch.setattr(data_sets, "published", lambda: ["ftc", "phoneblock"])
    assert "No published complaints are loaded." in admin_client.get(URL).text
    settings.COMPLAINT_STALE_DAYS = 7
    Dataset.objects.create(name="complaints ftc", version="2026-03-01", rows=1, loaded_at=NOW - timedelta(days=2))
    Dataset.objects.create(name="list phoneblock", version="42", rows=1, loaded_at=NOW - timedelta(days=1))
    assert table(admin_client.get(URL).text, "Complaint data") == [
        ["ftc", "2026-03-01", "8, stale", "2026-03-07 14:20"],
        ["phoneblock", "2026-03-08", "1", "2026-03-08 14:20"],
    ]


def test_last_failures_have_reason_advice_and_time(admin_client: Client) -> None:
    assert "No failures in this period." in admin_client.get(URL).text
    failed("late", seconds_ago=3600)
    failed("auth", seconds_ago=1800, hint="Check <TWILIO_AUTH_TOKEN>.")
    failed(connector="telnyx")
    failed("quota", seconds_ago=24 * 3600)
    shown = table(admin_client.get(URL).text, "Last failures")
    assert shown == [
        [
            "twilio",
            "2026-03-09 13:50:30",
            "auth: the vendor rejected the key Check <TWILIO_AUTH_TOKEN>.",
            advice("auth", "twilio"),
        ],
        ["twilio", "2026-03-09 13:20:30", "late: no reply in time", advice("late", "twilio")],
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal(0), "0.00"),
        (Decimal("0.008"), "0.008"),
        (Decimal("0.10"), "0.10"),
        (Decimal("1E+3"), "1,000.00"),
        (Decimal("0.008") * 1_000_000, "8,000.000"),
        (Decimal("1234567.0000001"), "1,234,567.0000001"),
    ],
)
def test_money_is_not_rounded(value: Decimal, written: str) -> None:
    assert money(value) == written


@pytest.mark.parametrize(
    ("value", "written"), [(None, "-"), (0.24, "0.2"), (9.96, "10.0"), (10, "10"), (1234.5, "1,234")]
)
def test_times_below_10_ms_have_one_decimal(value: float | None, written: str) -> None:
    assert milliseconds(value) == written
