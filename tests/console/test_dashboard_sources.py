"""The dashboard's sources and service health: cost, breakers, failing sources, Redis, the database's log."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from core.postgresql import server_log
from lookup import search
from lookup.models import SourcePause
from lookup.slot import RULES_SOURCE
from phonebook.imports.numbering_plan import NUMBERING_PLAN, installed_version
from phonebook.models import Dataset
from tests.console.dashboard_rows import (
    NOW,
    URL,
    add_result,
    chart,
    configure,
    count_calls,
    count_requests,
)
from tests.console_pages import figures, table, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]


def test_search_with_a_failed_source_is_counted_as_degraded(admin_client: Client) -> None:
    for outcome, count in (("found_both", 40), ("found_degraded", 30), ("none_degraded", 20), ("free_degraded", 10)):
        count_requests(outcome, count)
    text = admin_client.get(URL).text
    shown = figures(text)
    assert (shown["Answered"], shown["Found"], shown["Failed"]) == ("100", "70%", "0")
    assert shown["Degraded"] == "60 60% of new answers"
    assert shown["Spent"] == "90"
    drawn = {dataset["label"]: dataset["data"][-1] for dataset in chart(text)["datasets"]}
    assert (drawn["degraded"], drawn["both sources matched"], drawn["one source matched"]) == (60, 40, 0)


def sources_finding(client: Client) -> str:
    return words(client.get(URL).text.partition("<strong>Sources: ")[2].partition("</li>")[0])


def test_failing_source_is_unhealthy_before_its_breaker_opens(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    connector = "tests.connectors.RemoteKnows"
    add_result(seconds_ago=20, connector=connector)
    assert sources_finding(admin_client) == "healthy All configured sources are in use."
    add_result("auth", seconds_ago=10, hint="Check the key.", connector=connector)
    count_calls("found", 97)
    count_calls("auth", 2)
    count_calls("breaker", 1)
    count_calls("cached_found", 1_000)
    assert sources_finding(admin_client) == (
        "unhealthy Source failing: tests.connectors.RemoteKnows. 3 of 100 lookups failed. Last failure: auth, at "
        "2026-03-09 14:20 UTC. Check the key."
    )


def test_paused_source_is_not_failing(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    connector = "tests.connectors.RemoteKnows"
    add_result("auth", seconds_ago=10, connector=connector)
    SourcePause.objects.create(connector=connector, reason="invoice", paused_by="olga", paused_at=NOW)
    assert sources_finding(admin_client) == (
        "healthy Paused by an operator: tests.connectors.RemoteKnows (since 2026-03-09 14:20 UTC by olga (invoice))."
    )


def test_slot_without_a_source_is_unhealthy(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    for name in ("Knows", "RemoteKnows"):
        SourcePause.objects.create(connector=f"tests.connectors.{name}", reason="r", paused_by="olga", paused_at=NOW)
    assert sources_finding(admin_client).startswith("unhealthy All sources of source_a are paused: resume one.")


FAILING = "unhealthy Source failing: tests.connectors.Knows."


@pytest.mark.parametrize(
    ("counts", "failed_s", "answered_s", "finding"),
    [
        ({"found": 91, "late": 9}, 10, None, "unhealthy"),
        ({"found": 91, "late": 9}, 10, 9, "healthy"),  # it has recovered
        (
            {"found": 90, "late": 10},
            10,
            9,
            f"{FAILING} 10 of 100 lookups failed.",
        ),
        ({"found": 9, "late": 9}, 10, 9, "healthy"),  # too few for a percentage
        ({"late": 3}, 1_000, None, f"{FAILING} 3 of 3 lookups failed."),
        ({}, 301, None, "healthy"),
        ({"found": 91, "late": 9, "paused": 900}, 10, 9, "healthy"),
    ],
)
def test_source_is_failing_by_its_last_result_or_its_share(
    admin_client: Client, counts: dict[str, int], failed_s: int, answered_s: int | None, finding: str
) -> None:
    add_result("late", seconds_ago=failed_s)
    add_result("late", connector="telnyx")  # is not configured
    if answered_s is not None:
        add_result(seconds_ago=answered_s)
    for outcome, count in counts.items():
        count_calls(outcome, count, connector="tests.connectors.Knows")
    assert sources_finding(admin_client).startswith(finding)


def test_operator_rules_have_a_row_and_cost_nothing(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal(1)}
    count_calls("found", 12, connector=RULES_SOURCE)
    rows = table(admin_client.get(URL).text, "Sources")
    assert rows[0] == [
        "operator rules source_a",
        *("12", "12", "0", "0", "0", "- mean -", "-", "Not needed (local)", "0.00 free"),
    ]
    assert figures(admin_client.get(URL).text)["Cost of sources"] == "0.00 USD"


# --- Sources -----------------------------------------------------------------------------------------------------


def test_cost_is_exact_and_counts_only_calls(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows", "RemoteKnows")
    settings.SOURCE_A_PRICE = {"*": Decimal("0.008")}
    settings.SOURCE_B_PRICE = {"*": Decimal(1), "tests.connectors.RemoteKnows": Decimal("0.1")}
    settings.CURRENCY = "EUR"
    count_calls("found", 1000)
    count_calls("not_found", 100)
    count_calls("late", 23)
    for free in ("cached_found", "cached_not_found", "breaker", "busy", "no_time", "shared_late"):
        count_calls(free, 10_000)
    count_calls("found", 3, slot="source_b")
    count_calls("found", 10**6, connector="tests.connectors.Knows")
    count_calls("found", 10**6, hours_ago=24)
    text = admin_client.get(URL).text
    rows = {(row[0], row[-1]) for row in table(text, "Sources")}
    assert rows == {
        ("tests.connectors.Knows source_a", "0.00 free"),
        ("tests.connectors.RemoteKnows source_a", "8.984 0.008 per call"),
        ("tests.connectors.RemoteKnows source_b", "0.30 0.10 per call"),
    }
    assert figures(text)["Cost of sources"] == "9.284 EUR"


def test_source_without_a_price_is_not_shown_as_free(admin_client: Client, settings: Any) -> None:
    configure(settings, "RemoteKnows,RemoteKnowsName")
    settings.SOURCE_A_PRICE = {"tests.connectors.RemoteKnowsName": Decimal(0)}
    count_calls("found", 1234)
    text = admin_client.get(URL).text
    assert [row[-1] for row in table(text, "Sources")][:2] == ["unknown no price set", "0.00 free"]
    assert figures(text)["Cost of sources"] == "0.00 USD, incomplete"
    assert "1,234 calls without a price" in text


def test_unused_and_no_longer_configured_sources_are_listed(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal("0.5")}
    count_calls("found", 2, connector="telnyx")
    count_calls("found", 9, connector="directory")
    rows = table(admin_client.get(URL).text, "Sources")
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("tests.connectors.Knows source_a", "0", "0.00 free"),
        ("directory source_a, no longer configured", "9", "0.00 free"),
        ("telnyx source_a, no longer configured", "2", "1.00 0.50 per call"),
        ("tests.connectors.Knows source_b", "0", "0.00 free"),
    ]


def test_breaker_state_here_and_openings_everywhere_are_shown(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows,RemoteFails,RemoteKnowsName")
    guards = [member.guard for member in search.bound_sources("source_a")]
    assert guards[2] is not None
    guards[2].breaker.failed(guards[2].breaker.admit(), open_now=True)
    for hours_ago, count in ((0, 1), (3, 2), (25, 4)):
        count_calls("breaker_opened", count, slot="", hours_ago=hours_ago)
    count_calls("breaker_opened", 1, slot="", hours_ago=5, connector="tests.connectors.RemoteFails")
    text = admin_client.get(URL).text
    shown = [row[-2] for row in table(text, "Sources")][:4]
    assert shown == [
        "Not needed (local)",
        "Closed opened 3 times in all processes, last in the hour from 2026-03-09 14:00",
        "Open opened 1 time in all processes, last in the hour from 2026-03-09 09:00",
        "Closed never opened",
    ]
    assert "Sources: unhealthy</strong> Circuit breaker open: tests.connectors.RemoteFails." in text


# --- Service health ----------------------------------------------------------------------------------------------


def test_numbering_plan_is_checked_if_a_slot_uses_it(admin_client: Client, settings: Any) -> None:
    assert "Numbering plan: healthy</strong> Not used by any source." in admin_client.get(URL).text
    settings.SOURCE_A = "geography"
    unhealthy = "Numbering plan: unhealthy</strong> Numbering plan is not current."
    assert f"{unhealthy} None is loaded." in admin_client.get(URL).text
    row = Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    assert f"{unhealthy} Version 1.0 is loaded" in admin_client.get(URL).text
    Dataset.objects.filter(pk=row.pk).update(version=installed_version())
    assert "Numbering plan: healthy</strong>" in admin_client.get(URL).text


def complaint_data_finding(client: Client) -> str:
    return words(client.get(URL).text.partition("<strong>Complaint data: ")[2].partition("</li>")[0])


def test_stale_complaint_data_is_unhealthy(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_B, settings.COMPLAINT_STALE_DAYS = "complaints", 5
    assert complaint_data_finding(admin_client) == "healthy No published data is loaded."
    for source, days_ago in (("ftc", 5), ("fcc", 0), ("import", 900)):
        day = NOW.date() - timedelta(days=days_ago)
        Dataset.objects.create(name=f"complaints {source}", version=str(day), rows=1, loaded_at=NOW)
    Dataset.objects.create(name="list phoneblock", version="42", rows=1, loaded_at=NOW - timedelta(days=6))
    advice = "Run manage.py refresh_data, and daily from a timer or cron."
    expected = f"unhealthy Complaint data is stale: phoneblock. The newest data is 6 days old. {advice}"
    assert complaint_data_finding(admin_client) == expected
    settings.COMPLAINT_STALE_DAYS = 6
    assert complaint_data_finding(admin_client) == "healthy Age in days: ftc 5, fcc 0, phoneblock 6."


def test_configured_data_that_was_never_loaded_is_unhealthy(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_B, settings.REFRESH_SOURCES = "complaints", ["ftc", "phoneblock"]
    Dataset.objects.create(name="complaints ftc", version=str(NOW.date()), rows=1)
    advice = "Run manage.py refresh_data, and daily from a timer or cron."
    assert complaint_data_finding(admin_client) == (
        f"unhealthy Complaint data is stale: phoneblock. It was never loaded. {advice}"
    )


def test_stale_complaint_data_is_ignored_if_no_source_uses_it(admin_client: Client) -> None:
    Dataset.objects.create(name="complaints ftc", version="2020-01-01", rows=1)
    assert complaint_data_finding(admin_client) == "healthy Not used by any source."


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no log")
def test_database_settings_that_log_numbers_are_unhealthy(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = {name: {"unlike any"} for name in server_log.SILENT if name.startswith("log_error")}
    monkeypatch.setattr(server_log, "SILENT", everything)
    sentence = "log: unhealthy</strong> PostgreSQL may log phone numbers and names in clear text: log_error_verbosity"
    assert sentence in admin_client.get(URL).text
    monkeypatch.setattr(server_log, "SILENT", {})
    assert "log: healthy</strong>" in admin_client.get(URL).text


def test_unreachable_redis_is_unhealthy(admin_client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "Redis: unhealthy</strong> Redis is unavailable. Each process counts" in admin_client.get(URL).text


def test_reachable_redis_is_healthy(admin_client: Client, settings: Any, redis_url: str) -> None:
    settings.REDIS_URL = redis_url
    assert "Redis: healthy</strong> Reachable." in admin_client.get(URL).text
