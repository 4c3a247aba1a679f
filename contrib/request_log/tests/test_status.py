"""The dashboard's first block, with the requests of the last hour by minute."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contrib.request_log.minutes import by_minute
from contrib.request_log.models import RequestLogEntry
from lookup.models import SourceCheck, SourcePause
from monitoring import hooks, source_report
from tests.console.dashboard_rows import NOW, add_result, configure, count_calls, count_requests, timing_out
from tests.console_pages import words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
URL = "/admin/status/"
#: The last hour's requests, and the sources' state (5).
STATEMENTS = 6


def log(outcome: str, count: int = 1, *, minutes_ago: int = 0) -> None:
    at = NOW - timedelta(minutes=minutes_ago)
    known = {"token_id": 1, "request_id": "r", "status": 200, "charged": False, "replayed": False, "duration_us": 1}
    RequestLogEntry.objects.bulk_create(RequestLogEntry(created_at=at, outcome=outcome, **known) for _ in range(count))


def sentence(client: Client) -> str:
    return words(client.get(URL).text.partition("</span> <strong>")[2].partition("</strong>")[0])


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({}, "No requests in the last 10 minutes"),
        ({"found_one": 65, "failed": 2}, "Working: 7 requests a minute, 97 % answered"),
        (
            {"replayed": 9, "rate_limited": 1},
            "Working: 1 request a minute, 100 % answered, 1 refused",
        ),
        ({"no_credits": 2}, "Working: less than 1 request a minute, all refused"),
        ({"found_one": 10, "failed": 9}, "Working partly: 2 requests a minute, 52.6 % answered"),
        (
            {"found_both": 90, "found_degraded": 10},
            "Working: 11 requests a minute, 100 % answered",
        ),
        (
            {"found_both": 30, "replayed": 50, "found_degraded": 15, "none_degraded": 4, "no_credits": 8},
            "Working partly: 11 requests a minute, 100 % answered, 39 % degraded, 8 refused",
        ),
        (
            {"found_both": 2, "found_degraded": 2},
            "Working: less than 1 request a minute, 100 % answered",
        ),
        ({"failed": 5}, "Not working: less than 1 request a minute, 0 % answered"),
        ({"test": 50}, "No requests in the last 10 minutes"),
        ({"found_one": 9_999, "failed": 1}, "Working: 1,053 requests a minute, 99.9 % answered"),
    ],
)
def test_sentence_is_about_the_last_ten_minutes(admin_client: Client, outcomes: dict[str, int], expected: str) -> None:
    log("failed", 500, minutes_ago=10)
    for outcome, count in outcomes.items():
        log(outcome, count, minutes_ago=9)
    assert sentence(admin_client) == expected.replace("a minute", "a minute in the last 10 minutes")


def test_failing_source_is_named_with_its_time(
    admin_client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(settings, "Knows,RemoteKnows")
    name = "tests.connectors.RemoteKnows"
    add_result("auth", seconds_ago=120, connector=name)
    count_calls("auth", 4)
    log("found_one", 19)
    figures = "2 requests a minute in the last 10 minutes, 100 % answered"
    assert sentence(admin_client) == f"Working, but {name} is failing. {figures}."
    began = NOW - timedelta(hours=1)
    monkeypatch.setattr(source_report, "failing_since", lambda now: {name: began})
    assert sentence(admin_client) == f"Working, but {name} is failing since 13:20. {figures}."
    RequestLogEntry.objects.all().delete()
    log("found_one", 2)
    assert ". Less than 1 request a minute in the last 10 minutes" in sentence(admin_client)
    text = admin_client.get(URL).text
    assert "is-impaired" in text
    assert f'<a href="/admin/monitoring/source/{name}/change/">{name}</a>' in text


@pytest.mark.parametrize(
    ("paused", "traffic", "name", "expected"),
    [
        ("RemoteKnows", True, "working", "Working: 2 requests a minute in the last 10 minutes, 100 % answered"),
        ("RemoteKnows", False, "idle", "No requests in the last 10 minutes"),
        (
            *("Knows,RemoteKnows", True, "impaired"),
            (
                "Working partly; all sources of Source A are paused. "
                "2 requests a minute in the last 10 minutes, 100 % answered."
            ),
        ),
        (
            *("Knows,RemoteKnows", False, "impaired"),
            "No requests in the last 10 minutes; all sources of Source A are paused",
        ),
    ],
)
def test_slot_without_a_source_is_not_working(
    admin_client: Client, settings: Any, paused: str, traffic: bool, name: str, expected: str
) -> None:
    configure(settings, "Knows,RemoteKnows", "RemoteFails")
    for each in paused.split(","):
        at = NOW - timedelta(minutes=49)
        SourcePause.objects.create(
            connector=f"tests.connectors.{each}", reason="no invoice.", paused_by="olga", paused_at=at
        )
    if traffic:
        log("found_one", 19)
    assert sentence(admin_client) == expected
    text = admin_client.get("/admin/").text
    assert f'"status-sentence is-{name}"' in text
    for each in paused.split(","):
        statement = f"tests.connectors.{each} : paused by olga since 13:31: no invoice. Resume"
        assert words(text).count(statement) == 1


def test_failed_check_is_named_until_the_source_answers(admin_client: Client) -> None:
    name = "tests.connectors.Knows"
    result = {"outcome": "auth", "ok": False, "fix": "401: the key is rejected"}
    check = SourceCheck.objects.create(connector=name, started_by="olga", started_at=NOW, result=result)
    failure = "14:20 UTC: auth (401: the key is rejected)"
    assert sentence(admin_client).endswith(f"; the check of {name} failed at 2026-03-09 {failure}")
    assert f"The check of {name} failed at 2026-03-09 {failure}. Correct the key" in words(
        admin_client.get("/admin/").text
    )
    SourceCheck.objects.update(started_at=NOW - timedelta(days=40))
    assert f"the check of {name} failed at 2026-01-28 {failure}" in sentence(admin_client)
    add_result(seconds_ago=30 * 86_400)
    assert sentence(admin_client) == "No requests in the last 10 minutes"
    add_result("late", seconds_ago=1)
    check.save()
    assert sentence(admin_client).endswith(f"; {name} is failing (last answer at 2026-02-07 14:20)")


def test_minutes_are_those_of_the_last_hour() -> None:
    for minutes_ago, outcome in ((-1, "found_one"), (0, "failed"), (59, "invalid"), (60, "found_one")):
        log(outcome, 2, minutes_ago=minutes_ago)
    minutes = by_minute(NOW)
    assert len(minutes) == 60
    first = NOW.replace(second=0) - timedelta(minutes=59)
    shown = {at: each for at, each in minutes.items() if each}
    assert shown == {first: {"invalid": 2}, NOW.replace(second=0): {"found_one": 2, "failed": 2}}


def test_chart_names_minutes_with_failures(admin_client: Client) -> None:
    log("found_one", 12, minutes_ago=3)
    log("failed", 2, minutes_ago=4)
    text = admin_client.get(URL).text
    assert "12 answered, 0 refused, 2 failed; peak: 12 a minute." in text
    assert "failed: 2, last at 14:16 (2)" in words(text)
    assert '<path class="is-answered" d="M560 60v-60h8v60z"/>' in text


def test_hours_are_used_while_the_log_is_off(admin_client: Client, settings: Any) -> None:
    settings.REQUEST_LOG_DAYS = 0
    count_requests("found_one", 160)
    log("failed", 100)
    text = admin_client.get(URL).text
    assert "Working: 2 requests a minute in the last 81 minutes, 100\N{NO-BREAK SPACE}% answered" in text
    assert "requests are not logged" in text


def test_timed_out_query_falls_back_to_the_hours(admin_client: Client) -> None:
    count_requests("found_one", 160)
    with timing_out("requestlogentry"):
        text = admin_client.get(URL).text
    assert "Working: 2 requests a minute in the last 81 minutes" in text
    assert "Query timed out" in text


def test_block_is_small_and_its_statements_are_few(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "FAILING_SINCE", ())  # add-ons have statements of their own
    for minute in range(60):
        for outcome in ("found_one", "invalid", "failed"):
            log(outcome, 1 + minute % 7, minutes_ago=minute)
    with CaptureQueriesContext(connection) as captured:
        response = admin_client.get(URL)
    assert len(response.content) < 8_000
    assert len(captured) == 3 + STATEMENTS  # session, user, TOTP device
