"""The list of tokens and its filters, and the figures of a token's page."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts import credits, tokens
from accounts.models import ApiToken, TokenDay
from tests.accounts.admin.pages import LEDGER, LIST, issue_token, page, query_count
from tests.console_pages import words

pytestmark = pytest.mark.django_db


# --- The list ----------------------------------------------------------------------------------------------------


def listed(client: Client, **query: Any) -> list[str]:
    return [token.name for token in client.get(LIST, query).context["cl"].result_list]


def used(token: ApiToken, *, days_ago: int, outcome: str = "found_one", count: int) -> None:
    day = (timezone.now() - timedelta(days=days_ago)).date()
    TokenDay.objects.create(token=token, day=day, outcome=outcome, count=count)


def test_search_finds_name_note_contact_and_id(admin_client: Client, token: ApiToken) -> None:
    other = issue_token("Night desk")
    ApiToken.objects.filter(pk=other.pk).update(note=f"invoice {token.pk}", contact="jo@example.org")
    assert listed(admin_client, q="night") == ["Night desk"]
    assert listed(admin_client, q="JO@example") == ["Night desk"]
    assert listed(admin_client, q="desk invoice") == ["Night desk"]
    assert listed(admin_client, q=f"#{token.pk}") == ["pbx"]
    assert listed(admin_client, q=str(token.pk)) == ["Night desk", "pbx"]
    assert listed(admin_client, q="#" + "9" * 30) == []
    assert listed(admin_client, q="nobody") == []


def test_filters_scan_only_the_newest_tokens_but_id_finds_any(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, *_ = [issue_token(name, n) for n, name in enumerate(("shop c", "shop b", "shop a"))]
    limited = "Among the newest 2 tokens"
    monkeypatch.setattr("accounts.admin.search_text.MAX_SCANNED", 2)
    assert listed(admin_client) == ["shop a", "shop b", "shop c"]
    assert limited not in admin_client.get(LIST).text
    assert listed(admin_client, q="shop") == ["shop a", "shop b"]
    assert limited in admin_client.get(LIST, {"q": "shop"}).text
    assert listed(admin_client, state="active") == ["shop a", "shop b"]
    assert listed(admin_client, o="3") == ["shop b", "shop a"]
    for query in (f"#{oldest.pk}", str(oldest.pk)):
        assert "shop c" in listed(admin_client, q=query)


@pytest.mark.parametrize(
    ("column", "names"),
    [("1", ["a", "b", "c"]), ("3", ["c", "a", "b"]), ("5", ["b", "c", "a"]), ("8", ["c", "b", "a"])],
)
def test_list_is_sorted_by_the_selected_column(admin_client: Client, column: str, names: list[str]) -> None:
    now = timezone.now()
    for name, balance_, charged_ago, expires_in in (("a", 2, 1, 9), ("b", 3, 9, 8), ("c", 1, 5, 7)):
        token = issue_token(name, balance_)
        charged, expires = now - timedelta(days=charged_ago), now + timedelta(days=expires_in)
        ApiToken.objects.filter(pk=token.pk).update(last_charged_at=charged, expires_at=expires)
    assert listed(admin_client, o=column) == names
    assert listed(admin_client, o=f"-{column}") == names[::-1]


def test_list_and_page_show_when_credits_run_out(admin_client: Client) -> None:
    soon, later, unused, empty, gone = (issue_token(name) for name in ("soon", "later", "unused", "empty", "gone"))
    ApiToken.objects.update(created_at=timezone.now() - timedelta(days=90))
    for token in (soon, gone):
        used(token, days_ago=2, count=70)
    used(later, days_ago=2, count=7)
    used(later, days_ago=20, outcome="replayed", count=3)
    used(later, days_ago=20, outcome="no_credits", count=1000)
    used(later, days_ago=30, count=1000)
    credits.adjust(token=empty, amount=-30, actor="test", reason="x")
    tokens.revoke(token=gone)

    def columns(token: ApiToken) -> list[str]:
        text = admin_client.get(LIST, {"q": f"#{token.pk}"}).text
        return [
            re.sub("<[^>]*>", "", re.findall(rf"field-{name}[^>]*>(.*?)</td>", text, re.DOTALL)[0]).strip()
            for name in ("balance", "searches", "runs_out")
        ]

    def end_in(days: float) -> str:
        began = datetime.combine(timezone.now().date() - timedelta(days=6), datetime.min.time(), UTC)
        rate_days = (timezone.now() - began) / timedelta(days=1)
        return f"{timezone.now() + timedelta(days=days * rate_days):%Y-%m-%d} (credits)"

    assert columns(soon) == ["30", "70", end_in(30 / 70)]
    assert columns(later) == ["30", "10", end_in(30 / 7)]
    assert columns(unused) == ["30", "0", f"{unused.expires_at:%Y-%m-%d} (expires)"]
    assert columns(empty) == ["0", "0", "out of credits"]
    assert columns(gone) == ["30", "70", "-"]
    assert listed(admin_client, runs_out="soon") == ["soon"]
    assert listed(admin_client, runs_out="none") == ["empty"]
    assert listed(admin_client, o="7") == ["soon", "later", "unused", "gone", "empty"]
    assert listed(admin_client, o="-7", state="active") == ["unused", "later", "soon", "empty"]
    facts = admin_client.get(page(later, "change")).context
    assert (words(facts["runs_out"]), facts["token"].searches_30d) == (end_in(30 / 7), 10)


def test_token_runs_out_when_it_expires_before_its_credits(admin_client: Client) -> None:
    now = timezone.now()
    for name, days in (("expires", 6), ("both", 2), ("later", 30), ("empty", 3), ("gone", 1)):
        used(token := issue_token(name, 0 if name == "empty" else 500), days_ago=1, count=70)
        ApiToken.objects.filter(pk=token.pk).update(expires_at=now + timedelta(days=days))
    test = tokens.issue(name="test", is_test=True, actor="test").token
    ApiToken.objects.filter(pk=test.pk).update(expires_at=now + timedelta(days=5))
    tokens.revoke(token=ApiToken.objects.get(name="gone"))
    ApiToken.objects.filter(name="both").update(credits=5)
    assert listed(admin_client, runs_out="soon") == ["both", "expires"]
    assert listed(admin_client, runs_out="expiring") == ["both", "expires"]
    assert listed(admin_client, runs_out="none") == ["empty"]
    assert listed(admin_client, o="7") == ["both", "test", "expires", "later", "gone", "empty"]
    shown = admin_client.get(page(ApiToken.objects.get(name="expires"), "change")).context
    assert (words(shown["runs_out"]), shown["runs_out_note"]) == (f"{now + timedelta(days=6):%Y-%m-%d} (expires)", "")


def test_running_out_lists_the_soonest_first_without_empty(admin_client: Client) -> None:
    for name, balance in (("later", 60), ("sooner", 10), ("empty", 0)):
        used(token := issue_token(name, balance), days_ago=1, count=70)
        ApiToken.objects.filter(pk=token.pk).update(created_at=timezone.now() - timedelta(days=90))
    assert listed(admin_client, runs_out="soon") == ["sooner", "later"]
    assert listed(admin_client, runs_out="soon", o="1") == ["later", "sooner"]
    assert listed(admin_client, runs_out="none") == ["empty"]


def test_first_click_sorts_names_and_ends_up_and_figures_down(admin_client: Client) -> None:
    tokens.issue(name="shop", initial_credits=1, actor="test")

    def headings(order: str) -> dict[str, str]:
        found = re.findall(r'href="\?o=(-?[0-9])[^"]*"[^>]*>\s*(\w+)', admin_client.get(LIST, {"o": order}).text)
        return {title: target for target, title in found}

    unsorted, sorted_by_balance = headings(""), headings("-3")
    assert (unsorted["Name"], unsorted["Balance"], unsorted["Expires"]) == ("1", "-3", "8")
    assert sorted_by_balance["Balance"] == "3"


@pytest.mark.parametrize("query", [{}, {"q": "shop"}, {"runs_out": "soon"}, {"state": "active", "o": "3"}, {"o": "7"}])
def test_list_has_a_constant_number_of_queries(admin_client: Client, query: dict[str, str]) -> None:
    def queries() -> int:
        return query_count(admin_client, LIST, query)

    used(issue_token("shop"), days_ago=1, count=500)
    one = queries()
    for n in range(24):
        used(issue_token(f"shop {n}"), days_ago=1, count=500)
    assert len(listed(admin_client, **query)) == 25
    assert queries() == one


# --- The token's page --------------------------------------------------------------------------------------------


def test_page_shows_requests_by_day_and_outcome(admin_client: Client, token: ApiToken) -> None:
    assert "<canvas" not in admin_client.get(page(token, "change")).text
    used(token, days_ago=1, outcome="found_both", count=4)
    used(token, days_ago=1, outcome="failed", count=2)
    used(token, days_ago=29, outcome="failed", count=1)
    used(token, days_ago=30, outcome="invalid", count=9)
    response = admin_client.get(page(token, "change"))
    chart = response.context["chart"]
    assert {title: total for title, total in chart["legend"] if total} == {"both sources matched": 4, "failed": 3}
    columns = [chart["columns"].index(title) for title in ("both sources matched", "failed")]
    assert [[counts[column] for column in columns] for _, counts in (chart["rows"][-2], chart["rows"][0])] == [
        [4, 2],
        [0, 1],
    ]
    assert len(chart["rows"]) == 30
    assert re.search(r'role="img" aria-label="[^"]+">\s*<div[^>]*>\s*<canvas', response.text)
    assert response.text.count('<th scope="row" class="time"') == 30


def test_page_lists_the_latest_ledger_entries_with_links(admin_client: Client, token: ApiToken) -> None:
    entries = [credits.top_up(token=token, amount=n, actor="op", reason=f"why {n}")[0] for n in range(1, 23)]
    text = admin_client.get(page(token, "change")).text
    shown = [int(pk) for pk in re.findall(rf'href="{LEDGER}(\d+)/change/"', text)]
    assert shown == [entry.pk for entry in entries[:1:-1]]
    assert "why 22" in text
    assert f"{LEDGER}?token=%23{token.pk}&amp;since={token.created_at:%Y-%m-%d}" in text


def test_page_has_a_constant_number_of_queries(admin_client: Client, token: ApiToken) -> None:
    def queries() -> int:
        return query_count(admin_client, page(token, "change"))

    little = queries()
    for n in range(15):
        credits.top_up(token=token, amount=1, actor="op", reason="x")
        used(token, days_ago=n, count=1)
    assert queries() == little


def test_list_without_a_filter_offers_no_link_to_all(admin_client: Client, token: ApiToken) -> None:
    assert "show all" not in admin_client.get(LIST).text
    for query in ({"q": "pbx"}, {"state": "active"}):
        assert "show all" in admin_client.get(LIST, query).text
