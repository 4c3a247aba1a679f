"""The console's first page: figures that are exact, for whom they are meant, in as many statements for much as for
nothing."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken, CreditEntry
from accounts.postgresql import server_log
from lookup.connectors import registry
from lookup.datasets import numbering_plan
from lookup.datasets.plan import NUMBERING_PLAN
from lookup.models import Dataset
from tests.callerid_project.dashboard_rows import NOW, URL, asked, bind, booked, chart, ended, issued
from tests.console import figures, table

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_quiet")]
#: For a superuser: session, user, second factor; then search hours, sources, credit days, outstanding, running out, and
#: of health the tables, the migrations, the numbering plan, the sources' results, this hour's sums, and on PostgreSQL
#: what it writes into its log.
STATEMENTS = 3 + 10 + (connection.vendor == "postgresql")


@pytest.fixture
def _quiet(quiet_sources: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both slots are bound to one local source, and it is NOW."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)


@pytest.fixture
def seen(client: Client) -> Callable[..., str]:
    """`seen("accounts.view_apitoken", …)`: the page's text for a staff user with these permissions alone."""

    def text(*permissions: str, **query: str) -> str:
        user = User.objects.create_user(f"user {User.objects.count()}", is_staff=True)
        codenames = [name.partition(".")[2] for name in permissions]
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client.get(URL, query).text

    return text


# --- Searches ----------------------------------------------------------------------------------------------------


def test_the_figures_of_searches_are_those_of_the_period(admin_client: Client) -> None:
    for outcome, count in (
        ("found_both", 1000),
        ("found_one", 400),
        ("found_none", 500),
        ("given_away", 100),
        ("replayed", 7),
        ("no_credits", 1),
        ("rate_limited", 2),
        ("unauthorized", 4),
        ("invalid", 8),
        ("failed", 16),
    ):
        ended(outcome, count)
    told = figures(admin_client.get(URL).text)
    assert (told["Answered"], told["Found in a source"]) == ("2,007", "70%")
    assert (told["Refused"], told["Failed"]) == ("15", "16")
    assert told["Degraded"] == "0"


@pytest.mark.parametrize(
    ("query", "answered", "since"),
    [
        ({}, "3", "2026-03-08 15:00"),
        ({"period": "24h"}, "3", "2026-03-08 15:00"),
        ({"period": "7d"}, "15", "2026-03-03 00:00"),
        ({"period": "30d"}, "63", "2026-02-08 00:00"),
        *(({"period": bad}, "3", "2026-03-08 15:00") for bad in ("", "2h", "24H", "-1", "x" * 5000)),
    ],
)
def test_a_period_is_of_whole_hours_or_days_and_has_the_present_one(
    admin_client: Client, query: dict[str, str], answered: str, since: str
) -> None:
    week, month = 14 + 6 * 24, 14 + 29 * 24
    for power, hours_ago in enumerate((0, 23, 24, week, week + 1, month, month + 1)):
        ended("found_one", 2**power, hours_ago=hours_ago)
    text = admin_client.get(URL, query).text
    assert figures(text)["Answered"] == answered
    assert f"Searches since {since} UTC" in text


def test_an_hour_without_a_request_is_zero_and_not_missing(admin_client: Client) -> None:
    ended("found_both", 5, hours_ago=14)  # midnight
    ended("failed", 2, hours_ago=15)
    ended("given_away", 3, hours_ago=15)
    text = admin_client.get(URL).text
    drawn = chart(text)
    assert drawn["labels"][:2] == ["15:00", "16:00"]
    assert (drawn["labels"][9], drawn["labels"][-1], len(drawn["labels"])) == ("00:00", "14:00", 24)
    stacked = {dataset["label"]: dataset["data"] for dataset in drawn["datasets"]}
    nothing = [0] * 24
    assert stacked == {
        "both sources matched": [*nothing[:9], 5, *nothing[10:]],
        "one source matched": nothing,
        "no match": [*nothing[:8], 3, *nothing[9:]],
        "degraded": nothing,
        "replayed": nothing,
        "refused": nothing,
        "failed": [*nothing[:8], 2, *nothing[9:]],
    }
    rows = table(text, "Requests by hour")
    assert rows[8] == ["2026-03-08 23:00", "0", "0", "0", "3", *["0"] * 8, "2"]
    assert rows[9] == ["2026-03-09 00:00", "5", *["0"] * 12]
    assert len(rows) == 24


@pytest.mark.parametrize(
    ("query", "bars", "first"),
    [
        ({"period": "7d"}, 7, "Mar 03"),
        ({"period": "7d", "by": "day"}, 7, "Mar 03"),
        ({"period": "7d", "by": "hour"}, 6 * 24 + 15, "Mar 03, 00:00"),
        ({"period": "30d"}, 30, "Feb 08"),
        ({"period": "30d", "by": "hour"}, 30, "Feb 08"),
        ({"by": "day"}, 24, "15:00"),
    ],
)
def test_bars_are_hours_or_days(admin_client: Client, query: dict[str, str], bars: int, first: str) -> None:
    for hours_ago in (0, 14, 15, 40):
        ended("found_one", 1 + hours_ago, hours_ago=hours_ago)
    drawn = chart(admin_client.get(URL, query).text)
    assert (len(drawn["labels"]), drawn["labels"][0]) == (bars, first)
    if bars <= 30 and "period" in query:
        assert drawn["datasets"][1]["data"][-3:] == [41, 16, 1 + 15]


def test_the_kinds_of_refusals_stand_in_the_table(admin_client: Client) -> None:
    for count, outcome in enumerate(("no_credits", "rate_limited", "unauthorized", "invalid"), 1):
        ended(outcome, count)
    text = admin_client.get(URL).text
    assert table(text, "Requests by hour")[-1][-5:] == ["1", "2", "3", "4", "0"]
    assert re.findall(r'class="number">(refused: .*?)</th>', text) == [
        "refused: no credits",
        "refused: rate limited",
        "refused: no valid token",
        "refused: invalid request",
    ]


def test_a_process_whose_clock_is_ahead_does_no_harm(admin_client: Client) -> None:
    ended("found_one", 3, hours_ago=-1)
    assert chart(admin_client.get(URL).text)["labels"][-2:] == ["14:00", "15:00"]


# --- Credits -----------------------------------------------------------------------------------------------------


def test_credits_and_searches_are_of_the_same_days(admin_client: Client) -> None:
    for days_ago in (5, 6, 7):
        booked("issue", 1_000 * 10 ** (days_ago - 5), days_ago=days_ago)
        booked("top-up", 500 * 10 ** (days_ago - 5), days_ago=days_ago)
        booked("refund", 2 * 10 ** (days_ago - 5), days_ago=days_ago)
        booked("adjustment", -3 * 10 ** (days_ago - 5), days_ago=days_ago)
    for outcome in ("found_both", "found_one", "found_none", "replayed", "given_away"):
        ended(outcome, 7, hours_ago=14 + 6 * 24)
        ended(outcome, 100, hours_ago=15 + 6 * 24)
    text = admin_client.get(URL, {"period": "7d"}).text
    told = figures(text)
    assert "Credits since 2026-03-03 00:00 UTC" in text
    assert "Searches since 2026-03-03 00:00 UTC" in text
    booked_sums = told["Issued and topped up"], told["Refunded"], told["Adjusted"]
    assert (*booked_sums, told["Spent"], told["Answered"]) == ("16,500", "22", "-33", "21", "35")


def test_24_hours_of_credits_begin_with_those_of_searches(admin_client: Client) -> None:
    token = issued("pbx", 0)
    begins = datetime(2026, 3, 8, 15, tzinfo=UTC)
    for amount, at in ((100, begins), (10, begins - timedelta(seconds=1)), (1, NOW)):
        CreditEntry.objects.create(token=token, kind="top-up", amount=amount, balance_after=amount, created_at=at)
    ended("found_one", 7, hours_ago=23)
    ended("found_one", 70, hours_ago=24)
    text = admin_client.get(URL).text
    told = figures(text)
    assert "Credits since 2026-03-08 15:00 UTC" in text
    assert "Searches since 2026-03-08 15:00 UTC" in text
    assert (told["Issued and topped up"], told["Spent"], told["Answered"]) == ("101", "7", "7")


def test_what_is_outstanding_tells_unusable_tokens_apart(admin_client: Client) -> None:
    issued("a", 1000)
    tokens.revoke(token=issued("b", 200), reason="test")
    ApiToken.objects.filter(pk=issued("c", 30).pk).update(expires_at=NOW)
    told = figures(admin_client.get(URL).text)
    assert (told["Outstanding now"], told["On revoked or expired tokens"]) == ("1,000", "230")


# --- Tokens that run out -----------------------------------------------------------------------------------------


def test_the_first_ten_that_run_out_are_told_and_how_many_more(admin_client: Client) -> None:
    for number in range(13):
        issued(f"pbx {number}", 5 * number, charged=100)
    issued("idle", 1)
    text = admin_client.get(URL).text
    rows = table(text, "Running out within 7 days")
    assert [row[0].partition(" (")[0] for row in rows] == [f"pbx {number}" for number in range(10)]
    first, second = ApiToken.objects.order_by("pk")[:2]
    assert rows[0] == [f"pbx 0 (#{first.pk})", "0", "15.2", "Out of credits"]
    assert rows[1] == [f"pbx 1 (#{second.pk})", "5", "15.2", "2026-03-09 22:15"]
    assert f'href="/admin/accounts/apitoken/{second.pk}/change/"' in text
    assert "And 3 more." in text


def test_where_the_database_does_not_tell_in_time_the_rest_of_the_page_is_there(admin_client: Client) -> None:
    def too_slow(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "accounts_apitoken" in sql:
            raise OperationalError("canceling statement due to statement timeout")
        return execute(sql, params, many, context)

    ended("found_one", 3)
    with connection.execute_wrapper(too_slow):
        response = admin_client.get(URL)
    assert response.status_code == 200
    told = figures(response.text)
    assert (told["Answered"], told["Outstanding now"]) == ("3", "-")
    assert "Query timed out: too many active tokens." in response.text


# --- Sources -----------------------------------------------------------------------------------------------------


def test_what_calls_cost_is_exact_and_what_was_no_call_is_free(admin_client: Client, settings: Any) -> None:
    bind(settings, "Knows,RemoteKnows", "RemoteKnows")
    settings.SOURCE_A_PRICE = {"*": Decimal("0.008")}
    settings.SOURCE_B_PRICE = {"*": Decimal(1), "tests.connectors.RemoteKnows": Decimal("0.1")}
    settings.CURRENCY = "EUR"
    asked("found", 1000)
    asked("not_found", 100)
    asked("late", 23)
    for free in ("cached_found", "cached_not_found", "breaker", "busy", "no_time", "shared_late"):
        asked(free, 10_000)
    asked("found", 3, slot="source_b")
    asked("found", 10**6, connector="tests.connectors.Knows")
    asked("found", 10**6, hours_ago=24)
    text = admin_client.get(URL).text
    rows = {(row[0], row[-1]) for row in table(text, "Sources")}
    assert rows == {
        ("tests.connectors.Knows source_a", "0.00 free"),
        ("tests.connectors.RemoteKnows source_a", "8.984 0.008 a call"),
        ("tests.connectors.RemoteKnows source_b", "0.30 0.10 a call"),
    }
    assert figures(text)["Sources cost"] == "9.284 EUR"


def test_what_has_no_price_is_not_taken_for_free(admin_client: Client, settings: Any) -> None:
    bind(settings, "RemoteKnows,RemoteKnowsName")
    settings.SOURCE_A_PRICE = {"tests.connectors.RemoteKnowsName": Decimal(0)}
    asked("found", 1234)
    text = admin_client.get(URL).text
    assert [row[-1] for row in table(text, "Sources")][:2] == ["unknown no price set", "0.00 free"]
    assert figures(text)["Sources cost"] == "0.00 USD, incomplete"
    assert "Of 1,234 calls the cost is not known" in text


def test_a_bound_source_that_was_not_asked_is_there_and_one_that_is_no_longer_bound_says_so(
    admin_client: Client, settings: Any
) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal("0.5")}
    asked("found", 2, connector="telnyx")
    asked("found", 9, connector="directory")
    rows = table(admin_client.get(URL).text, "Sources")
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("tests.connectors.Knows source_a", "0", "0.00 free"),
        ("directory source_a, no longer configured", "9", "0.00 free"),
        ("telnyx source_a, no longer configured", "2", "1.00 0.50 a call"),
        ("tests.connectors.Knows source_b", "0", "0.00 free"),
    ]


def test_what_is_known_of_a_breaker_is_told_of_here_and_of_all(admin_client: Client, settings: Any) -> None:
    bind(settings, "Knows,RemoteKnows,RemoteFails,RemoteKnowsName")
    guards = [member.guard for member in registry.bind("source_a", "SOURCE_A", settings.SOURCE_A)]
    assert guards[2] is not None
    guards[2].breaker.failed(0, at_once=True)
    for hours_ago, count in ((0, 1), (3, 2), (25, 4)):
        asked("breaker_opened", count, slot="", hours_ago=hours_ago)
    asked("breaker_opened", 1, slot="", hours_ago=5, connector="tests.connectors.RemoteFails")
    text = admin_client.get(URL).text
    told = [row[-2] for row in table(text, "Sources")][:4]
    assert told == [
        "Not needed (local)",
        "Closed opened 3 times in all processes, last in the hour from 2026-03-09 14:00",
        "Paused opened 1 time in all processes, last in the hour from 2026-03-09 09:00",
        "Closed never opened",
    ]
    assert "Sources: unhealthy</strong> Paused after repeated failures: tests.connectors.RemoteFails." in text


# --- Is it well --------------------------------------------------------------------------------------------------


def test_the_numbering_plan_is_looked_after_where_a_slot_asks_it(admin_client: Client, settings: Any) -> None:
    assert "Numbering plan: healthy</strong> No slot asks it." in admin_client.get(URL).text
    settings.SOURCE_A = "geography"
    assert "Numbering plan: unhealthy</strong> Not loaded" in admin_client.get(URL).text
    row = Dataset.objects.create(name=NUMBERING_PLAN, version="1.0", rows=1)
    assert "Numbering plan: unhealthy</strong> Version 1.0 is loaded" in admin_client.get(URL).text
    Dataset.objects.filter(pk=row.pk).update(version=numbering_plan.version())
    assert "Numbering plan: healthy</strong>" in admin_client.get(URL).text


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no log")
def test_settings_that_write_numbers_into_the_databases_log_are_told(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = {name: {"unlike any"} for name in server_log.SILENT if name.startswith("log_error")}
    monkeypatch.setattr(server_log, "SILENT", everything)
    sentence = "log: unhealthy</strong> It may get numbers and names in clear: log_error_verbosity"
    assert sentence in admin_client.get(URL).text
    monkeypatch.setattr(server_log, "SILENT", {})
    assert "log: healthy</strong>" in admin_client.get(URL).text


def test_a_redis_that_does_not_answer_is_told(admin_client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "Redis: unhealthy</strong> It does not answer" in admin_client.get(URL).text


def test_a_redis_that_answers_is_told(admin_client: Client, settings: Any, redis_url: str) -> None:
    settings.REDIS_URL = redis_url
    assert "Redis: healthy</strong> It answers." in admin_client.get(URL).text


# --- For whom ----------------------------------------------------------------------------------------------------


def test_only_staff_sees_it(client: Client) -> None:
    assert client.get(URL)["Location"].startswith("/admin/login/")
    client.force_login(User.objects.create_user("no staff"))
    assert client.get(URL)["Location"].startswith("/admin/login/")


SEARCHES, CREDITS, OUTSTANDING, SOURCES = (
    "Searches since",
    "Issued and topped up",
    "Outstanding now",
    'aria-label="Sources"',
)
RUNNING_OUT, WELL = "Running out within 7 days", "Service health"


@pytest.mark.parametrize(
    ("permission", "blocks"),
    [
        ("lookup.view_usage", {SEARCHES, SOURCES, WELL}),
        ("accounts.view_creditentry", {CREDITS, WELL}),
        ("accounts.view_apitoken", {OUTSTANDING, RUNNING_OUT, WELL}),
        ("lookup.view_contact", set()),
    ],
)
def test_each_block_is_for_whoever_may_view_what_it_shows(
    seen: Callable[..., str], permission: str, blocks: set[str]
) -> None:
    issued("secret customer", 5, charged=100)
    text = seen(permission)
    assert {block for block in (SEARCHES, CREDITS, OUTSTANDING, SOURCES, RUNNING_OUT, WELL) if block in text} == blocks
    assert ("secret customer" in text) == (permission == "accounts.view_apitoken")


def test_who_may_view_nothing_is_told_so(seen: Callable[..., str]) -> None:
    assert "there is nothing here for you" in seen()
    assert "there is nothing here for you" not in seen("accounts.view_apitoken")


# --- All of it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [{}, {"period": "7d", "by": "hour"}, {"period": "30d"}])
def test_as_many_statements_for_much_as_for_nothing_and_none_of_them_reads_the_ledger(
    admin_client: Client, query: dict[str, str]
) -> None:
    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(URL, query).status_code == 200
        return [query["sql"] for query in captured]

    assert len(statements()) == STATEMENTS
    for number in range(30):
        issued(f"pbx {number}", 10, charged=number + 1)
        ended("found_one", 1, hours_ago=number)
        asked("found", 1, hours_ago=number)
        asked("late", 1, hours_ago=number, connector=f"source {number}")
        booked("top-up", 1, days_ago=number)
    with_much = statements()
    assert len(with_much) == STATEMENTS
    ledger = [sql for sql in with_much if "accounts_creditentry" in sql]
    # Only what operators booked, and only where the period begins within a day.
    assert len(ledger) == (0 if query else 1)
    assert all("NOT (" in sql and "'search'" in sql for sql in ledger)


def test_an_empty_installation_says_that_there_is_nothing_yet(admin_client: Client) -> None:
    text = admin_client.get(URL).text
    assert "No requests recorded in this period. Figures are up to 10 seconds behind." in text
    assert "<canvas" not in text
    assert "None, at the rate of the last 7 days." in text
    told = figures(text)
    assert told["Found in a source"] == "-"
    assert set(told.values()) == {"0", "-", "0.00 USD"}


def test_names_are_escaped(admin_client: Client) -> None:
    issued("<b>x</b>", 5, charged=100)
    asked("found", 1, connector="<i>y</i>")
    text = admin_client.get(URL).text
    assert "&lt;b&gt;x&lt;/b&gt;" in text
    assert "&lt;i&gt;y&lt;/i&gt;" in text
    assert "<b>x</b>" not in text
    assert "<i>y</i>" not in text


def test_the_page_says_when_it_is_of_and_what_its_chart_is(admin_client: Client) -> None:
    ended("found_one", 1)
    text = admin_client.get(URL).text
    assert "2026-03-09 14:20:30 UTC" in text
    assert re.findall(r'<div role="img" aria-label="(.*?)"', text) == [
        "Requests by hour and outcome. The table below has the same figures."
    ]
