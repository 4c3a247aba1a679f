"""What supporters may give, many tokens topped up by one page, and the figures on the list and on a token's page."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission, User
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, tokens
from accounts.admin import tokens as token_pages
from accounts.models import ApiToken, CreditEntry, TokenDay
from tests.accounts.admin_pages import (
    ADD,
    BULK,
    LEDGER,
    LIST,
    all_at_once,
    at_once,
    balance,
    booked,
    hidden,
    history,
    page,
    select,
    submit,
)

pytestmark = pytest.mark.django_db

LIMIT = 100


def made(name: str, initial_credits: int = 30) -> ApiToken:
    return tokens.issue(name=name, initial_credits=initial_credits, actor="test").token


@pytest.fixture
def supporter(db: None, settings: Any) -> User:
    """May give LIMIT credits in 24 hours."""
    settings.SUPPORT_CREDITS_PER_DAY = LIMIT
    user = User.objects.create_user("supporter", password="x", is_staff=True)
    allowed = ("view_apitoken", "top_up_apitoken", "adjust_apitoken", "add_apitoken")
    user.user_permissions.set(Permission.objects.filter(codename__in=allowed))
    return user


@pytest.fixture
def support(client: Client, supporter: User) -> Client:
    client.force_login(supporter)
    return client


# --- What a supporter may give -----------------------------------------------------------------------------------


def test_a_supporter_gives_up_to_the_limit_whatever_the_page(support: Client, token: ApiToken) -> None:
    other = made("other")
    submit(support, page(token, "top-up"), amount=60, reason="sorry")
    submit(support, page(other, "adjust"), amount=20, reason="sorry")
    submit(support, ADD, name="third", initial_credits=15, days=30, reason="order")
    for url, fields in {
        page(token, "top-up"): {"amount": 6, "reason": "x"},
        page(token, "adjust"): {"amount": 6, "reason": "x"},
        ADD: {"name": "fourth", "initial_credits": 6, "days": 30, "reason": "order"},
    }.items():
        refused = submit(support, url, **fields)
        assert "You may give 100 credits in 24 hours, and 5 of them are left." in refused.text
        assert "eyJ" not in refused.text
    assert (balance(token), balance(other), ApiToken.objects.count(), len(history())) == (90, 50, 3, 3)
    assert submit(support, page(token, "top-up"), amount=5, reason="x").status_code == 302


def test_taking_credits_away_needs_no_allowance(support: Client, token: ApiToken) -> None:
    submit(support, page(token, "top-up"), amount=LIMIT, reason="sorry")
    assert submit(support, page(token, "adjust"), amount=-50, reason="too many").status_code == 302
    assert balance(token) == 80


def test_what_was_booked_before_is_not_refused_by_the_limit(support: Client, token: ApiToken) -> None:
    fields = {**hidden(support.get(page(token, "top-up"))), "amount": LIMIT, "reason": "sorry"}
    assert [support.post(page(token, "top-up"), fields).status_code for _ in range(2)] == [302, 302]
    assert "This was booked before" in support.get(page(token, "change")).text
    issue = {"once": str(uuid4()), "name": "new", "initial_credits": 0, "days": 30, "reason": "order"}
    support.post(ADD, issue)
    assert "has issued token" in support.post(ADD, {**issue, "initial_credits": 50}).text
    assert (balance(token), len(history())) == (130, 2)


@pytest.mark.django_db(transaction=True)
def test_two_pages_at_the_same_moment_do_not_both_fit_the_limit(supporter: User, token: ApiToken) -> None:
    other = made("other")
    posts = [(page(one, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"}) for one in (token, other)]
    answers = all_at_once(supporter, posts)
    assert sorted(answer.status_code for answer in answers) == [200, 302]
    assert balance(token) + balance(other) == 120


@pytest.mark.django_db(transaction=True)
def test_one_page_of_a_supporter_posted_at_once_is_one_top_up_and_no_refusal(supporter: User, token: ApiToken) -> None:
    answers = at_once(supporter, page(token, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"})
    assert [answer.status_code for answer in answers] == [302] * 3
    assert (booked(token, "top-up"), len(history())) == ([60], 1)


@pytest.mark.django_db(transaction=True)
def test_an_operators_two_pages_never_wait_for_each_other_in_a_circle(supporter: User, token: ApiToken) -> None:
    """One holds the token and writes the history, which refers to the operator; the other holds the operator and waits
    for the token."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            ApiToken.objects.select_for_update().get(pk=token.pk)
            post = (page(token, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"})
            other = pool.submit(all_at_once, supporter, [post])
            while not other.done() and not somebody_waits():
                time.sleep(0.005)
            LogEntry.objects.log_actions(supporter.pk, [token], CHANGE, "adjusted", single_object=True)
        assert [answer.status_code for answer in other.result(30)] == [302]
    assert balance(token) == 90


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


# --- Many at once ------------------------------------------------------------------------------------------------


def outcomes(response: Any) -> dict[str, str]:
    return {row["token"].name: row["outcome"] for row in response.context["rows"]}


def send(client: Client, *selected: ApiToken, **fields: Any) -> tuple[dict[str, Any], Any]:
    """The page's fields, to be sent again, and the answer to the first sending."""
    data = {**hidden(select(client, *selected)), "amount": 5, "reason": "thanks", **fields}
    return data, client.post(BULK, data)


def test_selected_tokens_are_topped_up_once_however_often_the_page_is_sent(
    admin_client: Client, token: ApiToken
) -> None:
    other, apart = made("other"), made("apart")
    asked = select(admin_client, token, other)
    assert outcomes(asked) == {"pbx": "Top up", "other": "Top up"}
    assert not CreditEntry.objects.filter(kind="top-up").exists()
    data, answer = send(admin_client, token, other)
    assert "ledger row" in outcomes(answer)["pbx"]
    assert answer.context["form"] is None
    again = admin_client.post(BULK, data)
    assert all("was booked before" in outcome for outcome in outcomes(again).values())
    assert [booked(one, "top-up") for one in (token, other, apart)] == [[5], [5], []]
    assert [who for who, _ in history()] == ["admin", "admin"]
    assert "thanks" in history()[0][1]


@pytest.mark.django_db(transaction=True)
def test_a_bulk_page_posted_several_times_at_once_books_once(admin_user: User, token: ApiToken) -> None:
    other = made("other")
    fields = {"once": str(uuid4()), "tokens": f"{token.pk},{other.pk}", "amount": 5, "reason": "x"}
    answers = at_once(admin_user, BULK, fields)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [booked(one, "top-up") for one in (token, other)] == [[5], [5]]
    assert len(history()) == 2


def test_the_operators_reference_counts_once_over_all_bulk_pages(admin_client: Client, token: ApiToken) -> None:
    other = made("other")
    submit(admin_client, page(token, "top-up"), amount=5, reason="paid", own_reference="INV-1")
    _, answer = send(admin_client, token, other, own_reference="INV-1")
    assert "was booked before" in outcomes(answer)["pbx"]
    assert [booked(one, "top-up") for one in (token, other)] == [[5], [5]]
    _, answer = send(admin_client, token, other, own_reference="INV-1", amount=6)
    assert "was used for another booking" in outcomes(answer)["other"]
    assert "2 of 2 tokens were not topped up" in answer.text


def test_a_revoked_token_is_skipped_with_a_sentence(admin_client: Client, token: ApiToken) -> None:
    other = made("other")
    tokens.revoke(token=other)
    assert outcomes(select(admin_client, token, other))["other"] == "Skip: it is revoked."
    _, answer = send(admin_client, token, other)
    assert outcomes(answer)["other"] == "Skipped: revoked."
    assert answer.context["form"] is None
    assert [booked(one, "top-up") for one in (token, other)] == [[5], []]


def test_what_failed_is_named_and_sending_again_books_it_alone(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, full, last = made("busy"), made("full"), made("last")
    for _ in range(2):
        credits.top_up(token=full, amount=credits.MAX_AMOUNT, actor="test", reason="x")
    monkeypatch.setattr(credits, "MAX_BALANCE", 2 * credits.MAX_AMOUNT + 30)
    really = credits.top_up

    def top_up(**fields: Any) -> CreditEntry:
        if fields["token"].pk == busy.pk:
            really(**fields)  # and yet nothing of it may stay
            raise OperationalError("canceling statement due to statement timeout")
        return really(**fields)

    with monkeypatch.context() as patch:
        patch.setattr(credits, "top_up", top_up)
        data, answer = send(admin_client, token, busy, full, last)
    found = outcomes(answer)
    assert found["busy"] == "Not booked: the database did not take it."
    assert found["full"].startswith("Not booked: The balance must stay between")
    assert all("Booked:" in found[name] for name in ("pbx", "last"))
    assert "2 of 4 tokens were not topped up" in answer.text
    assert [balance(one) for one in (token, busy, last)] == [35, 30, 35]
    assert len(history()) == 2

    credits.adjust(token=full, amount=-100, actor="test", reason="x")
    sent_again = {**hidden(answer), "amount": 5, "reason": "thanks"}
    assert sent_again["once"] == data["once"]
    again = admin_client.post(BULK, sent_again)
    assert again.context["form"] is None
    assert [len(booked(one, "top-up")) for one in (token, busy, full, last)] == [1, 1, 3, 1]
    assert len(history()) == 4
    assert credits.audit() == []


def test_the_allowance_counts_the_sum_and_not_what_is_skipped_or_booked(support: Client, token: ApiToken) -> None:
    other, gone = made("other"), made("gone")
    tokens.revoke(token=gone)
    _, refused = send(support, token, other, gone, amount=51)
    assert "You may give 100 credits in 24 hours, and 100 of them are left." in refused.text
    assert not CreditEntry.objects.filter(kind="top-up").exists()
    data, answer = send(support, token, other, gone, amount=50)
    assert answer.context["form"] is None
    assert [balance(one) for one in (token, other, gone)] == [80, 80, 30]
    again = support.post(BULK, data)
    assert all("was booked before" in outcomes(again)[name] for name in ("pbx", "other"))


def test_bulk_needs_the_permission_to_top_up(client: Client, token: ApiToken) -> None:
    user = User.objects.create_user("other", password="x", is_staff=True)
    every = Permission.objects.filter(content_type__app_label="accounts").exclude(codename="top_up_apitoken")
    user.user_permissions.set(every)
    client.force_login(user)
    assert "top_up_selected" not in client.get(LIST).text
    select(client, token)
    fields = {"once": str(uuid4()), "tokens": str(token.pk), "amount": 5, "reason": "x"}
    assert client.post(BULK, fields).status_code == 403
    assert client.get(BULK).status_code == 403
    assert balance(token) == 30


def test_deleting_is_not_offered(admin_client: Client, token: ApiToken) -> None:
    text = admin_client.get(LIST).text
    assert "top_up_selected" in text
    assert "delete_selected" not in text


@pytest.mark.parametrize("wrong", ["", "x", "1,", "1;2", "9" * 19, "999999", ",".join(map(str, range(1, 902)))])
def test_a_bulk_page_that_is_not_ours_leads_back_to_the_list(admin_client: Client, token: ApiToken, wrong: str) -> None:
    fields = {"once": str(uuid4()), "tokens": wrong, "amount": 5, "reason": "x"}
    assert admin_client.post(BULK, fields)["Location"] == LIST
    assert admin_client.get(BULK)["Location"] == LIST


@pytest.mark.parametrize("wrong", [{"amount": ""}, {"reason": ""}, {"own_reference": "x" * 101}])
def test_a_refused_bulk_page_still_lists_its_tokens(
    admin_client: Client, token: ApiToken, wrong: dict[str, Any]
) -> None:
    _, answer = send(admin_client, token, **wrong)
    assert "errorlist" in answer.text
    assert outcomes(answer) == {"pbx": "Top up"}
    assert (balance(token), history()) == (30, [])


def test_select_across_takes_what_the_list_finds_but_not_too_many(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [made(f"shop {n}") for n in range(3)]
    url = f"{LIST}?q=shop"
    action = {"action": "top_up_selected", "_selected_action": named[0].pk, "select_across": "1"}
    assert outcomes(admin_client.post(url, action)).keys() == {one.name for one in named}
    monkeypatch.setattr(token_pages, "MAX_AT_ONCE", 2)
    refused = admin_client.post(url, action, follow=True)
    assert "At most 2 tokens are topped up at once." in refused.text
    assert not CreditEntry.objects.filter(kind="top-up").exists()


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
    assert {title: total for title, total in chart["legend"] if total} == {"found in both": 4, "failed": 3}
    columns = [chart["columns"].index(title) for title in ("found in both", "failed")]
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
