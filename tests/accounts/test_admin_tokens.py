"""The figures on the tokens' list and on a token's page, and what is found there."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, tokens
from accounts.models import ApiToken, TokenDay
from tests.accounts.admin_pages import LEDGER, LIST, made, page

pytestmark = pytest.mark.django_db


# --- The list ----------------------------------------------------------------------------------------------------


def listed(client: Client, **query: Any) -> list[str]:
    return [token.name for token in client.get(LIST, query).context["cl"].result_list]


def used(token: ApiToken, *, days_ago: int, outcome: str = "found_one", count: int) -> None:
    day = (timezone.now() - timedelta(days=days_ago)).date()
    TokenDay.objects.create(token=token, day=day, outcome=outcome, count=count)


def test_a_token_is_found_by_name_note_contact_and_id(admin_client: Client, token: ApiToken) -> None:
    other = made("Night desk")
    ApiToken.objects.filter(pk=other.pk).update(note=f"invoice {token.pk}", contact="jo@example.org")
    assert listed(admin_client, q="night") == ["Night desk"]
    assert listed(admin_client, q="JO@example") == ["Night desk"]
    assert listed(admin_client, q="desk invoice") == ["Night desk"]
    assert listed(admin_client, q=f"#{token.pk}") == ["pbx"]
    assert listed(admin_client, q=str(token.pk)) == ["Night desk", "pbx"]
    assert listed(admin_client, q="#" + "9" * 30) == []
    assert listed(admin_client, q="nobody") == []


def test_among_too_many_tokens_only_the_newest_are_sifted_and_an_id_finds_every_one(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, *_ = [made(name, n) for n, name in enumerate(("shop c", "shop b", "shop a"))]
    sifted = "Among the newest 2 tokens"
    monkeypatch.setattr("accounts.sifting.MAX_SIFTED", 2)
    assert listed(admin_client) == ["shop a", "shop b", "shop c"]
    assert sifted not in admin_client.get(LIST).text
    assert listed(admin_client, q="shop") == ["shop a", "shop b"]
    assert sifted in admin_client.get(LIST, {"q": "shop"}).text
    assert listed(admin_client, state="active") == ["shop a", "shop b"]
    assert listed(admin_client, o="2") == ["shop b", "shop a"]
    for query in (f"#{oldest.pk}", str(oldest.pk)):
        assert "shop c" in listed(admin_client, q=query)


@pytest.mark.parametrize(
    ("column", "names"),
    [("1", ["a", "b", "c"]), ("2", ["c", "a", "b"]), ("4", ["b", "c", "a"]), ("7", ["c", "b", "a"])],
)
def test_the_list_is_sorted_by_what_operators_ask_for(admin_client: Client, column: str, names: list[str]) -> None:
    now = timezone.now()
    for name, balance_, charged_ago, expires_in in (("a", 2, 1, 9), ("b", 3, 9, 8), ("c", 1, 5, 7)):
        token = made(name, balance_)
        charged, expires = now - timedelta(days=charged_ago), now + timedelta(days=expires_in)
        ApiToken.objects.filter(pk=token.pk).update(last_charged_at=charged, expires_at=expires)
    assert listed(admin_client, o=column) == names
    assert listed(admin_client, o=f"-{column}") == names[::-1]


def test_the_list_and_the_page_say_when_credits_run_out(admin_client: Client) -> None:
    soon, later, unused, empty, gone = (made(name) for name in ("soon", "later", "unused", "empty", "gone"))
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

    def date_in(days: float) -> str:
        began = datetime.combine(timezone.now().date() - timedelta(days=6), datetime.min.time(), UTC)
        rate_days = (timezone.now() - began) / timedelta(days=1)
        return f"{timezone.now() + timedelta(days=days * rate_days):%Y-%m-%d}"

    assert columns(soon) == ["30", "70", date_in(30 / 70)]
    assert columns(later) == ["30", "10", date_in(30 / 7)]
    assert columns(unused) == ["30", "0", "not in sight"]
    assert columns(empty) == ["0", "0", "no credits"]
    assert columns(gone) == ["30", "70", "-"]
    assert listed(admin_client, runs_out="soon") == ["soon"]
    assert listed(admin_client, runs_out="none") == ["empty"]
    facts = admin_client.get(page(later, "change")).context
    assert (facts["runs_out"], facts["token"].searches_30d) == (date_in(30 / 7), 10)


def test_what_runs_out_soon_is_said_not_to_be_known_where_the_database_does_not_tell_in_time(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def running_out(*_: Any, **__: Any) -> Any:
        raise OperationalError("canceling statement due to statement timeout")

    used(made("soon"), days_ago=1, count=500)
    assert listed(admin_client, runs_out="soon") == ["soon"]
    monkeypatch.setattr("accounts.activity.running_out", running_out)
    answer = admin_client.get(LIST, {"runs_out": "soon"})
    assert (answer.status_code, list(answer.context["cl"].result_list)) == (200, [])
    assert "The database did not tell in time which tokens run out soon." in answer.text


@pytest.mark.parametrize("query", [{}, {"q": "shop"}, {"runs_out": "soon"}, {"state": "active", "o": "2"}])
def test_the_list_takes_as_many_queries_for_40_tokens_as_for_one(admin_client: Client, query: dict[str, str]) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(LIST, query).status_code == 200
        return len(captured)

    used(made("shop"), days_ago=1, count=500)
    one = queries()
    for n in range(39):
        used(made(f"shop {n}"), days_ago=1, count=500)
    assert len(listed(admin_client, **query)) == 40
    assert queries() == one


# --- The token's page --------------------------------------------------------------------------------------------


def test_the_page_shows_each_day_and_how_its_requests_ended(admin_client: Client, token: ApiToken) -> None:
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


def test_the_page_lists_the_newest_ledger_lines_with_links(admin_client: Client, token: ApiToken) -> None:
    entries = [credits.top_up(token=token, amount=n, actor="op", reason=f"why {n}") for n in range(1, 23)]
    text = admin_client.get(page(token, "change")).text
    shown = [int(pk) for pk in re.findall(rf'href="{LEDGER}(\d+)/change/"', text)]
    assert shown == [entry.pk for entry in entries[:1:-1]]
    assert "why 22" in text
    assert f"{LEDGER}?token__id__exact={token.pk}" in text


def test_the_page_takes_as_many_queries_for_much_as_for_little(admin_client: Client, token: ApiToken) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(page(token, "change")).status_code == 200
        return len(captured)

    little = queries()
    for n in range(15):
        credits.top_up(token=token, amount=1, actor="op", reason="x")
        used(token, days_ago=n, count=1)
    assert queries() == little


def test_the_page_says_when_a_grace_ends(admin_client: Client, token: ApiToken) -> None:
    assert "Grace ends" not in admin_client.get(page(token, "change")).text
    tokens.rotate(token=token, grace=timedelta(hours=1))
    assert "Grace ends" in admin_client.get(page(token, "change")).text


@pytest.mark.parametrize("action", ["top-up", "adjust", "rotate", "revoke"])
def test_an_actions_page_says_whose_token_it_is_and_how_it_stands(
    admin_client: Client, token: ApiToken, action: str
) -> None:
    def text() -> str:
        return " ".join(re.sub("<[^>]*>", "", admin_client.get(page(token, action)).text).split())

    assert "pbx (#" in text()
    assert "30 credits, active" in text()
    tokens.revoke(token=token)
    assert "30 credits, revoked" in text()
