"""The dashboard where sources fail: an outage does not look like success, and rules are no sources."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from lookup.connectors.chain import OPERATOR_RULES
from tests.callerid_project.dashboard_rows import NOW, URL, asked, bind, chart, ended, result
from tests.console import figures, table, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_quiet")]


@pytest.fixture
def _quiet(quiet_sources: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both slots are bound to one local source, and it is NOW."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)


def test_an_answer_with_a_dead_source_is_degraded_and_no_success(admin_client: Client) -> None:
    for outcome, count in (("found_both", 40), ("found_degraded", 30), ("none_degraded", 20), ("free_degraded", 10)):
        ended(outcome, count)
    text = admin_client.get(URL).text
    told = figures(text)
    assert (told["Answered"], told["Found in a source"], told["Failed"]) == ("100", "70%", "0")
    assert told["Degraded"] == "60 60% of new answers"
    assert told["Spent"] == "90"
    drawn = {dataset["label"]: dataset["data"][-1] for dataset in chart(text)["datasets"]}
    assert (drawn["degraded"], drawn["both sources matched"], drawn["one source matched"]) == (60, 40, 0)


def sources_finding(client: Client) -> str:
    return words(client.get(URL).text.partition("<strong>Sources: ")[2].partition("</li>")[0])


def test_a_source_that_fails_is_unhealthy_before_its_breaker_opens(admin_client: Client, settings: Any) -> None:
    bind(settings, "Knows,RemoteKnows")
    connector = "tests.connectors.RemoteKnows"
    result(seconds_ago=20, connector=connector)
    assert sources_finding(admin_client) == "healthy All configured sources are in use."
    result("auth", seconds_ago=10, hint="Check the key.", connector=connector)
    asked("found", 97)
    asked("auth", 2)
    asked("breaker", 1)
    asked("cached_found", 1_000)
    assert sources_finding(admin_client) == (
        "unhealthy Failing: tests.connectors.RemoteKnows, 3 of 100 this hour, last at 14:20:20 UTC "
        "(auth: Check the key)."
    )


def test_a_source_that_answers_again_is_healthy(admin_client: Client) -> None:
    result("late", seconds_ago=10)
    asked("found", 91, connector="tests.connectors.Knows")
    asked("late", 9, connector="tests.connectors.Knows")
    assert sources_finding(admin_client).startswith("unhealthy")
    result(seconds_ago=9)
    assert sources_finding(admin_client).startswith("healthy")


def test_a_source_that_answers_only_sometimes_is_unhealthy(admin_client: Client) -> None:
    result("late", seconds_ago=10)
    result(seconds_ago=9)
    asked("found", 90, connector="tests.connectors.Knows")
    asked("late", 10, connector="tests.connectors.Knows")
    assert "Knows, 10 of 100 this hour, last at 14:20:20 UTC (late)." in sources_finding(admin_client)


def test_old_failures_and_those_of_other_sources_do_not_count(admin_client: Client) -> None:
    result("late", seconds_ago=301)
    result("late", connector="telnyx")
    assert sources_finding(admin_client).startswith("healthy")


def test_rules_have_a_row_and_are_no_calls_to_pay(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal(1)}
    asked("found", 12, connector=OPERATOR_RULES)
    rows = table(admin_client.get(URL).text, "Sources")
    assert rows[0] == [
        "operator rules source_a",
        *("12", "12", "0", "0", "0", "- mean -", "-", "Not needed (local)", "0.00 free"),
    ]
    assert figures(admin_client.get(URL).text)["Sources cost"] == "0.00 USD"
