"""What supporters may give, and many tokens topped up by one page."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Permission, User
from django.db import OperationalError, connection, transaction
from django.test import Client

from accounts import audit, credits, tokens
from accounts.admin import tokens as token_pages
from accounts.models import ApiToken, CreditEntry
from tests.accounts.admin_pages import (
    ADD,
    BULK,
    LIST,
    all_at_once,
    at_once,
    balance,
    booked,
    hidden,
    history,
    made,
    page,
    select,
    submit,
)

pytestmark = pytest.mark.django_db

LIMIT = 100


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
    assert audit.audit() == []


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
