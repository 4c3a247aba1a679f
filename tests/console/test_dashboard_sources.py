"""The dashboard's sources and service health: cost, breakers, failing sources, Redis, the database's log."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from core.postgresql import server_log
from lookup.models import SourcePause
from lookup.search import RULES_SOURCE
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
    assert (shown["Answered"], shown["Found"], shown["Failed"]) == ("100", "70 %", "0")
    assert shown["Degraded"] == "60 60 % of new answers"
    assert shown["Spent"] == "90"
    drawn = {dataset["label"]: dataset["data"][-1] for dataset in chart(text)["datasets"]}
    assert (drawn["degraded"], drawn["both sources matched"], drawn["one source matched"]) == (60, 40, 0)


def sources_finding(client: Client) -> str:
    return words(re.split(r"<strong>(?:<a [^>]*source/\">)?Sources: ", client.get(URL).text)[1].partition("</li>")[0])


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
        "2026-03-09 14:20 UTC. Check the key. Correct the key, or ask the vendor to enable the account."
    )


def test_paused_source_is_not_failing(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    connector = "tests.connectors.RemoteKnows"
    add_result("auth", seconds_ago=10, connector=connector)
    SourcePause.objects.create(connector=connector, reason="invoice", paused_by="olga", paused_at=NOW)
    text = admin_client.get(URL).text
    attention = words(text.partition("<h2>Needs attention</h2>")[2].partition("<details")[0])
    assert f"{connector} : paused by olga since 14:20: invoice. Resume" in attention
    assert f'href="/admin/monitoring/source/{connector}/resume/" aria-label="Resume {connector}">' in text
    assert not any(wrong in text for wrong in ("needs attention.", "Sources: healthy", "failing"))


def test_slot_without_a_source_is_unhealthy(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows")
    for name in ("Knows", "RemoteKnows"):
        SourcePause.objects.create(connector=f"tests.connectors.{name}", reason="r", paused_by="olga", paused_at=NOW)
    assert sources_finding(admin_client).startswith("unhealthy All sources of Source A are paused: resume one.")


def test_operator_rules_have_a_row_and_cost_nothing(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal(1)}
    count_calls("found", 12, connector=RULES_SOURCE)
    rows = table(admin_client.get(URL).text, "Sources")
    assert rows[0] == [
        "operator rules Source A",
        *("12", "12", "0", "0", "0", "-", "-", "-", "-", "0.00 free"),
    ]
    assert figures(admin_client.get(URL).text)["Cost of sources"] == "0.00 USD"


# --- Sources -----------------------------------------------------------------------------------------------------


def test_cost_is_exact_and_counts_only_billable_calls(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows", "RemoteKnows")
    settings.SOURCE_A_PRICE = {"*": Decimal("0.008")}
    settings.SOURCE_B_PRICE = {"*": Decimal(1), "tests.connectors.RemoteKnows": Decimal("0.1")}
    settings.CURRENCY = "EUR"
    count_calls("found", 1000)
    count_calls("not_found", 100)
    count_calls("late", 23)
    for free in (
        "cached_found",
        "cached_not_found",
        "breaker",
        "busy",
        "no_time",
        "shared_late",
        "auth",
        "quota",
        "rate_limited",
    ):
        count_calls(free, 10_000)
    count_calls("found", 3, slot="source_b")
    count_calls("found", 10**6, connector="tests.connectors.Knows")
    count_calls("found", 10**6, hours_ago=24)
    text = admin_client.get(URL).text
    rows = {(row[0], row[-1]) for row in table(text, "Sources")}
    assert rows == {
        ("tests.connectors.Knows Source A", "0.000 free"),
        ("tests.connectors.RemoteKnows Source A", "8.984 0.008 per call"),
        ("tests.connectors.RemoteKnows Source B", "0.300 0.10 per call"),
    }
    assert figures(text)["Cost of sources"] == "9.284 EUR"


def test_source_without_a_price_is_not_shown_as_free(admin_client: Client, settings: Any) -> None:
    configure(settings, "RemoteKnows,RemoteKnowsName")
    settings.SOURCE_A_PRICE = {"tests.connectors.RemoteKnowsName": Decimal(0)}
    count_calls("found", 1234)
    text = admin_client.get(URL).text
    assert [row[-1] for row in table(text, "Sources")][:2] == ["unknown no price set", "0.00 free"]
    assert figures(text)["Cost of sources"] == "0.00 USD incomplete"
    assert "1,234 calls without a price" in text


def test_unused_and_no_longer_configured_sources_are_listed(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal("0.5")}
    count_calls("found", 2, connector="telnyx")
    count_calls("found", 9, connector="directory")
    rows = table(admin_client.get(URL).text, "Sources")
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("tests.connectors.Knows Source A", "0", "0.00 free"),
        ("directory Source A, no longer configured", "9", "0.00 free"),
        ("telnyx Source A, no longer configured", "2", "1.00 0.50 per call"),
        ("tests.connectors.Knows Source B", "0", "0.00 free"),
    ]


def test_state_of_each_source_is_shown(admin_client: Client, settings: Any) -> None:
    configure(settings, "Knows,RemoteKnows,RemoteFails")
    count_calls("found", 1)
    connector = "tests.connectors.RemoteFails"
    count_calls("found", 1, connector=connector)
    add_result("unavailable", seconds_ago=2_400, connector=connector)
    add_result("breaker", seconds_ago=60, connector=connector)
    text = admin_client.get(URL).text
    rows = table(re.sub(r"\s+", " ", text), "Sources")
    assert [row[-2] for row in rows][:3] == ["no calls", "healthy", "failing"]
    assert "Source failing: tests.connectors.RemoteFails." in text


# --- Service health ----------------------------------------------------------------------------------------------


def test_numbering_plan_is_checked_if_a_slot_uses_it(admin_client: Client, settings: Any) -> None:
    assert "Numbering plan: not used</strong> No source needs it." in admin_client.get(URL).text
    settings.SOURCE_A = "geography"
    unhealthy = "Numbering plan: unhealthy</strong>"
    none = f"{unhealthy} No numbering plan is loaded. Version {installed_version()} is installed."
    assert none in admin_client.get(URL).text
    row = Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    version = f"Version {installed_version()} is installed, 1.0 is loaded."
    assert f"{unhealthy} Numbering plan is not current. {version}" in admin_client.get(URL).text
    Dataset.objects.filter(pk=row.pk).update(version=installed_version())
    assert "Numbering plan: healthy</strong>" in admin_client.get(URL).text


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


def test_reachable_redis_is_healthy(admin_client: Client, settings: Any, redis_url: str) -> None:
    settings.REDIS_URL = ""
    text = admin_client.get(URL).text
    assert "Redis: not used</strong> Not configured" in text
    unused = r"<summary>Service health: \d+ healthy; not used: .*Redis.*</summary>"
    assert re.search(unused, text)
    settings.REDIS_URL = redis_url
    assert "Redis: healthy</strong> Reachable; limits" in admin_client.get(URL).text
