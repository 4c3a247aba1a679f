"""The dashboard: exact figures, shown to those who may view them, in a fixed number of statements."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import tokens
from accounts.models import ApiToken, CreditEntry, Customer, UnknownCharge
from console import dashboard
from monitoring import hooks
from tests import plugin
from tests.console.dashboard_rows import (
    NOW,
    URL,
    add_credits,
    chart,
    count_calls,
    count_requests,
    issue_long_ago,
    timing_out,
)
from tests.console_pages import figures, table, words

RUNNING_OUT_URL = f"{URL}running-out/"
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
#: For a superuser, without add-ons: session, user, TOTP device; the last hour's requests, the
#: sources' state (5); then search hours, sources with their pauses, credits, unknown charges, outstanding, and tokens
#: that need attention; and for health the tables, the migrations, the schema, the
#: sources' state again (5), searches, the audits, maintenance (3), the pauses, and on PostgreSQL replication and its
#: log's settings.
STATEMENTS = 3 + 6 + 21 + 2 * (connection.vendor == "postgresql")


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


def test_search_figures_count_only_the_period(admin_client: Client) -> None:
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
        count_requests(outcome, count)
    shown = figures(admin_client.get(URL).text)
    assert (shown["Answered"], shown["Found"]) == ("2,007", "70 %")
    assert (shown["Refused"], shown["Failed"]) == ("15", "16")
    assert shown["Degraded"] == "0"


@pytest.mark.parametrize(
    ("query", "answered", "since"),
    [
        ({}, "3", "2026-03-08 15:00"),
        ({"period": "24h"}, "3", "2026-03-08 15:00"),
        ({"period": "7d"}, "15", "2026-03-03 00:00"),
        ({"period": "30d"}, "63", "2026-02-08 00:00"),
        ({"period": "2h"}, "1", "2026-03-09 13:00"),
        ({"period": "month"}, "31", "2026-03-01 00:00"),
        *(({"period": bad}, "3", "2026-03-08 15:00") for bad in ("", "24H", "-1", "x" * 5000)),
    ],
)
def test_period_is_whole_hours_or_days_up_to_now(
    admin_client: Client, query: dict[str, str], answered: str, since: str
) -> None:
    week, month = 14 + 6 * 24, 14 + 29 * 24
    for power, hours_ago in enumerate((0, 23, 24, week, week + 1, month, month + 1)):
        count_requests("found_one", 2**power, hours_ago=hours_ago)
    text = admin_client.get(URL, query).text
    assert figures(text)["Answered"] == answered
    assert f"Searches since {since} UTC" in text


def test_last_month_is_without_this_month(admin_client: Client) -> None:
    for days_ago, credits, searches in ((8, 1, 1), (9, 20, 2), (36, 300, 4), (37, 4_000, 8)):  # of 9 March
        add_credits("top-up", credits, days_ago=days_ago)
        count_requests("found_one", searches, hours_ago=24 * days_ago)
    text = admin_client.get(URL, {"period": "last-month"}).text
    shown = figures(text)
    assert (shown["Answered"], shown["Issued and topped up"]) == ("6", "320")
    drawn = chart(text)
    assert (len(drawn["labels"]), drawn["labels"][0], drawn["labels"][-1]) == (28, "Feb 01", "Feb 28")
    assert "Searches in February 2026" in text


def test_chart_shows_hours_without_requests_as_zero(admin_client: Client) -> None:
    count_requests("found_both", 5, hours_ago=14)  # midnight
    count_requests("failed", 2, hours_ago=15)
    count_requests("given_away", 3, hours_ago=15)
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
        ({}, 24, "15:00"),
        ({"period": "7d"}, 7, "Mar 03"),
        ({"period": "30d"}, 30, "Feb 08"),
    ],
)
def test_chart_bars_are_hours_or_days(admin_client: Client, query: dict[str, str], bars: int, first: str) -> None:
    for hours_ago in (0, 14, 15, 40):
        count_requests("found_one", 1 + hours_ago, hours_ago=hours_ago)
    drawn = chart(admin_client.get(URL, query).text)
    assert (len(drawn["labels"]), drawn["labels"][0]) == (bars, first)
    if query:
        assert drawn["datasets"][1]["data"][-3:] == [41, 16, 1 + 15]


def test_requests_with_test_tokens_are_not_shown(admin_client: Client) -> None:
    count_requests("found_both", 5)
    count_requests("failed", 2)

    def shown() -> list[Any]:
        text = admin_client.get(URL).text
        return [figures(text), chart(text), table(text, "Requests by hour")]

    before = shown()
    count_requests("test", 1_000)
    assert shown() == before


def test_counts_of_a_process_with_a_fast_clock_are_shown(admin_client: Client) -> None:
    count_requests("found_one", 3, hours_ago=-1)
    assert chart(admin_client.get(URL).text)["labels"][-2:] == ["14:00", "15:00"]


# --- Credits -----------------------------------------------------------------------------------------------------


def test_credits_and_searches_cover_the_same_days(admin_client: Client) -> None:
    for days_ago in (5, 6, 7):
        add_credits("issue", 1_000 * 10 ** (days_ago - 5), days_ago=days_ago)
        add_credits("top-up", 500 * 10 ** (days_ago - 5), days_ago=days_ago)
        add_credits("refund", 2 * 10 ** (days_ago - 5), days_ago=days_ago)
        add_credits("adjustment", -3 * 10 ** (days_ago - 5), days_ago=days_ago)
    for outcome in ("found_both", "found_one", "found_none", "replayed", "given_away"):
        count_requests(outcome, 7, hours_ago=14 + 6 * 24)
        count_requests(outcome, 100, hours_ago=15 + 6 * 24)
    text = admin_client.get(URL, {"period": "7d"}).text
    shown = figures(text)
    assert "Credits since 2026-03-03 00:00 UTC" in text
    assert "Searches since 2026-03-03 00:00 UTC" in text
    booked_sums = shown["Issued and topped up"], shown["Refunded"], shown["Adjusted"]
    assert (*booked_sums, shown["Spent"], shown["Answered"]) == ("16,500", "22", "-33", "21", "35")


def test_credits_and_searches_cover_the_same_24_hours(admin_client: Client) -> None:
    token = issue_long_ago("pbx", 0)
    begins = datetime(2026, 3, 8, 15, tzinfo=UTC)
    for amount, at in ((100, begins), (10, begins - timedelta(seconds=1)), (1, NOW)):
        CreditEntry.objects.create(token=token, kind="top-up", amount=amount, balance_after=amount, created_at=at)
    count_requests("found_one", 7, hours_ago=23)
    count_requests("found_one", 70, hours_ago=24)
    text = admin_client.get(URL).text
    shown = figures(text)
    assert "Credits since 2026-03-08 15:00 UTC" in text
    assert "Searches since 2026-03-08 15:00 UTC" in text
    assert (shown["Issued and topped up"], shown["Spent"], shown["Answered"]) == ("101", "7", "7")


def test_outstanding_credits_exclude_unusable_tokens(admin_client: Client) -> None:
    issue_long_ago("a", 1000)
    tokens.revoke(token=issue_long_ago("b", 200), reason="test")
    ApiToken.objects.filter(pk=issue_long_ago("c", 30).pk).update(expires_at=NOW)
    shown = figures(admin_client.get(URL).text)
    assert (shown["Outstanding now"], shown["On revoked or expired tokens"]) == ("1,000", "230")


# --- Tokens that run out -----------------------------------------------------------------------------------------


def test_first_ten_tokens_running_out_are_listed(admin_client: Client) -> None:
    for number in range(13):
        issue_long_ago(f"pbx {number}", 5 * number, charged=100)
    issue_long_ago("idle", 1)
    clinic = Customer.objects.create(name="Harbour Clinic")
    ApiToken.objects.filter(name="pbx 1").update(customer=clinic)
    text = admin_client.get(RUNNING_OUT_URL).text
    rows = table(text, "Running out within 7 days")
    assert [row[0].partition(" (")[0] for row in rows] == [f"pbx {number}" for number in range(1, 11)]
    second = ApiToken.objects.get(name="pbx 1")
    assert rows[0] == [f"pbx 1 (#{second.pk}) {clinic.name}", "5", "15.2", "2026-03-09 22:15 (credits)"]
    assert f'href="/admin/accounts/apitoken/{second.pk}/change/"' in text
    assert '/apitoken/?runs_out=soon">2 more</a>' in text


def test_expiring_token_runs_out_with_its_cause(admin_client: Client) -> None:
    token = issue_long_ago("pbx", 500)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=NOW + timedelta(days=6))
    rows = table(admin_client.get(RUNNING_OUT_URL).text, "Running out within 7 days")
    assert rows == [[f"pbx (#{token.pk})", "500", "-", "2026-03-15 14:20 (expires)"]]


def test_quiet_dashboard_does_not_deny_tokens_running_out(admin_client: Client) -> None:
    issue_long_ago("pbx", 5, charged=100)
    attention = words(admin_client.get(URL).text.partition(ATTENTION)[2].partition("Service health")[0])
    assert "API tokens running out within 7 days" in attention
    assert "Nothing needs attention." not in attention
    assert plugin.production() or "Nothing else needs attention." in attention  # there, settings of the suite do
    assert "(credits)" in admin_client.get(RUNNING_OUT_URL).text


def test_due_tokens_need_attention_without_alerts(admin_client: Client) -> None:
    states = ("a", 5, 6), ("b", 0, 6), ("c", 5, 8), ("d", 0, 90), ("gone", 0, -1), ("test", 0, 6)
    for name, balance, days in states:
        token = issue_long_ago(name, balance)
        expires_at = NOW + timedelta(days=days)
        ApiToken.objects.filter(pk=token.pk).update(expires_at=expires_at, is_test=name == "test")
    tokens.revoke(token=issue_long_ago("revoked", 0))
    ApiToken.objects.filter(name="b").update(last_charged_at=NOW - timedelta(days=6))
    text = admin_client.get(URL).text
    assert '?runs_out=expiring">1 API token expires within 7 days</a>' in text
    assert '?runs_out=none">2 API tokens are out of credits</a>, 1 of them in use (charged in the last 7 days)<' in text
    assert "needs attention." not in text
    ApiToken.objects.filter(name__in="bd").update(credits=1)
    ApiToken.objects.filter(name="b").update(expires_at=NOW + timedelta(days=9))
    text = admin_client.get(URL).text
    assert "1 API token expires within 7 days" in text
    assert "out of credits" not in text


def test_timed_out_token_query_keeps_the_rest_of_the_page(admin_client: Client) -> None:
    count_requests("found_one", 3)
    with timing_out("accounts_apitoken"):
        response = admin_client.get(URL)
    assert response.status_code == 200
    shown = figures(response.text)
    assert (shown["Answered"], shown["Outstanding now"]) == ("3", "-")
    assert "Query timed out: too many API tokens to count" in response.text
    assert "needs attention." not in response.text


def test_timed_out_list_of_tokens_says_so(admin_client: Client) -> None:
    with timing_out("accounts_apitoken"):
        response = admin_client.get(RUNNING_OUT_URL)
    assert response.status_code == 200
    assert "Query timed out: too many active tokens." in response.text


# --- Permissions -------------------------------------------------------------------------------------------------


SEARCHES, CREDITS, OUTSTANDING = "Searches since", "Issued and topped up", "Outstanding now"
SOURCES, RUNNING_OUT, HEALTH = 'aria-label="Sources"', "running out within 7 days", "Service health"
ATTENTION = "Needs attention"


@pytest.mark.parametrize(
    ("permission", "blocks"),
    [
        ("monitoring.view_source", {SEARCHES, SOURCES, HEALTH, ATTENTION}),
        ("accounts.view_creditentry", {CREDITS}),
        ("accounts.view_apitoken", {OUTSTANDING, RUNNING_OUT, ATTENTION}),
        ("phonebook.view_contact", set()),
    ],
)
def test_each_block_needs_the_permission_to_view_its_data(
    client: Client, seen: Callable[..., str], permission: str, blocks: set[str]
) -> None:
    issue_long_ago("secret customer", 5, charged=100)
    text = seen(permission)
    assert {
        block for block in (SEARCHES, CREDITS, OUTSTANDING, SOURCES, RUNNING_OUT, HEALTH, ATTENTION) if block in text
    } == blocks
    response = client.get(RUNNING_OUT_URL)
    assert response.status_code == (200 if RUNNING_OUT in blocks else 403)
    assert ("secret customer" in response.text) == (RUNNING_OUT in blocks)


def test_user_without_permissions_gets_an_explanation(seen: Callable[..., str]) -> None:
    assert "Ask a superuser for a role" in seen()
    assert "Ask a superuser for a role" not in seen("accounts.view_apitoken")


# --- The whole page ---------------------------------------------------------------------------------------------------


def test_refunds_of_lost_answers_and_unknown_charges_are_counted(admin_client: Client) -> None:
    add_credits("refund", 7)
    assert figures(admin_client.get(URL, {"period": "7d"}).text)["Refunded"] == "7"
    token = issue_long_ago("pbx", 10)
    for number, (outcome, days_ago) in enumerate(
        [*[("refunded", 0)] * 3, ("refunded", 10), ("not charged", 0), ("unknown", 0), ("unknown", 10)]
    ):
        settled_at = None if outcome == "unknown" else NOW - timedelta(days=days_ago)
        UnknownCharge.objects.create(
            token=token,
            charged_at=NOW - timedelta(days=days_ago),
            request_id=f"r{number}",
            outcome=outcome,
            settled_at=settled_at,
        )
    shown = figures(admin_client.get(URL, {"period": "7d"}).text)
    assert shown["Refunded"] == "7 3 by the service, for searches answered with 500"
    assert shown["Charge unknown"] == "2 answered with 500; refunded if charged"


@pytest.mark.parametrize("query", [{}, {"period": "30d"}])
def test_statement_count_is_fixed_and_skips_ledger_searches(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    for where, name in ((dashboard, "BLOCKS"), (dashboard, "ATTENTION"), (hooks, "FAILING_SINCE"), (hooks, "CHECKS")):
        monkeypatch.setattr(where, name, ())  # add-ons have statements of their own

    def statements() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(URL, query).status_code == 200
        return [query["sql"] for query in captured]

    assert len(statements()) == STATEMENTS
    for number in range(30):
        issue_long_ago(f"pbx {number}", 10, charged=number + 1)
        count_requests("found_one", 1, hours_ago=number)
        count_calls("found", 1, hours_ago=number)
        count_calls("late", 1, hours_ago=number, connector=f"source {number}")
        add_credits("top-up", 1, days_ago=number)
    with_much = statements()
    assert len(with_much) == STATEMENTS
    ledger = [sql for sql in with_much if "accounts_creditentry" in sql]
    # Only entries of operators.
    assert len(ledger) == 1
    assert all("NOT (" in sql and "'search'" in sql for sql in ledger)


def test_empty_installation_shows_empty_figures(admin_client: Client) -> None:
    text = admin_client.get(URL).text
    assert "No requests recorded in this period. Figures are up to 2 seconds behind." in text
    assert "<canvas" not in text
    assert "No token runs out within 7 days." in admin_client.get(RUNNING_OUT_URL).text
    shown = figures(text)
    assert shown["Found"] == "-"
    assert set(shown.values()) == {"0", "-", "0.00 USD"}
