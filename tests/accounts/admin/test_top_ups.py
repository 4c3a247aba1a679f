"""The daily allowance of supporters, and topping up several tokens on one page."""

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
from accounts.admin import top_ups
from accounts.models import ApiToken, CreditEntry
from tests.accounts.admin.pages import (
    ADD,
    BULK,
    LIST,
    a_lock_is_awaited,
    amounts,
    balance,
    hidden_fields,
    history,
    issue_token,
    page,
    post_all_concurrently,
    post_concurrently,
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


# --- The allowance -----------------------------------------------------------------------------------


def test_allowance_is_shared_by_all_pages(support: Client, token: ApiToken) -> None:
    other = issue_token("other")
    submit(support, page(token, "top-up"), amount=60, reason="sorry")
    submit(support, page(other, "adjust"), amount=20, reason="sorry")
    submit(support, ADD, name="third", initial_credits=15, days=30, reason="order")
    for url, fields in {
        page(token, "top-up"): {"amount": 6, "reason": "x"},
        page(token, "adjust"): {"amount": 6, "reason": "x"},
        ADD: {"name": "fourth", "initial_credits": 6, "days": 30, "reason": "order"},
    }.items():
        refused = submit(support, url, **fields)
        assert "Only 5 of your 100 credits in 24 hours are left: enter a smaller amount" in refused.text
        assert "eyJhbGciO" not in refused.text
    assert (balance(token), balance(other), ApiToken.objects.count(), len(history())) == (90, 50, 3, 3)
    assert "You can give 5 more credits now: your limit is 100 in 24 hours." in support.get(page(token, "top-up")).text
    assert submit(support, page(token, "top-up"), amount=5, reason="x").status_code == 302


def test_removing_credits_needs_no_allowance(support: Client, token: ApiToken) -> None:
    submit(support, page(token, "top-up"), amount=LIMIT, reason="sorry")
    assert submit(support, page(token, "adjust"), amount=-50, reason="too many").status_code == 302
    assert balance(token) == 80


def test_allowance_does_not_refuse_a_resubmission(support: Client, token: ApiToken) -> None:
    fields = {**hidden_fields(support.get(page(token, "top-up"))), "amount": LIMIT, "reason": "sorry"}
    assert [support.post(page(token, "top-up"), fields).status_code for _ in range(2)] == [302, 302]
    assert "Already recorded (ledger entry" in support.get(page(token, "change")).text
    issue = {"once": str(uuid4()), "name": "new", "initial_credits": 0, "days": 30, "reason": "order"}
    support.post(ADD, issue)
    assert "has already issued token" in support.post(ADD, {**issue, "initial_credits": 50}).text
    assert (balance(token), len(history())) == (130, 2)


@pytest.mark.django_db(transaction=True)
def test_concurrent_pages_do_not_exceed_the_allowance(supporter: User, token: ApiToken) -> None:
    other = issue_token("other")
    posts = [(page(one, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"}) for one in (token, other)]
    answers = post_all_concurrently(supporter, posts)
    assert sorted(answer.status_code for answer in answers) == [200, 302]
    assert balance(token) + balance(other) == 120


@pytest.mark.django_db(transaction=True)
def test_concurrent_resubmission_is_not_refused_by_allowance(supporter: User, token: ApiToken) -> None:
    answers = post_concurrently(supporter, page(token, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"})
    assert [answer.status_code for answer in answers] == [302] * 3
    assert (amounts(token, "top-up"), len(history())) == ([60], 1)


@pytest.mark.django_db(transaction=True)
def test_two_pages_of_one_operator_do_not_deadlock(supporter: User, token: ApiToken) -> None:
    """One holds the token's lock and writes the history, which refers to the operator; the other holds the operator's
    lock and waits for the token."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            ApiToken.objects.select_for_update().get(pk=token.pk)
            post = (page(token, "top-up"), {"once": str(uuid4()), "amount": 60, "reason": "x"})
            other = pool.submit(post_all_concurrently, supporter, [post])
            while not other.done() and not a_lock_is_awaited():
                time.sleep(0.005)
            LogEntry.objects.log_actions(supporter.pk, [token], CHANGE, "adjusted", single_object=True)
        assert [answer.status_code for answer in other.result(30)] == [302]
    assert balance(token) == 90


# --- Several tokens ------------------------------------------------------------------------------------------------


def send(client: Client, *selected: ApiToken, **fields: Any) -> tuple[dict[str, Any], Any]:
    """The page's fields, for resubmitting, and the first response."""
    data = {**hidden_fields(select(client, *selected)), "amount": 5, "reason": "thanks", **fields}
    return data, client.post(BULK, data)


def test_resubmitted_bulk_page_tops_up_each_token_once(admin_client: Client, token: ApiToken) -> None:
    other, apart, revoked = (issue_token(name) for name in ("other", "apart", "revoked"))
    tokens.revoke(token=revoked)
    asked = select(admin_client, token, other, revoked)
    assert f"each of 2 tokens: pbx (#{token.pk}), other (#{other.pk})." in asked.text
    assert not CreditEntry.objects.filter(kind="top-up").exists()
    data, answer = send(admin_client, token, other, revoked)
    assert answer["Location"] == LIST
    assert "Added 5 credits to each of 2 tokens. Reason: thanks" in admin_client.get(LIST).text
    admin_client.post(BULK, data)
    assert "Already recorded when this page was submitted before; nothing added." in admin_client.get(LIST).text
    assert [amounts(one, "top-up") for one in (token, other, apart, revoked)] == [[5], [5], [], []]
    assert [who for who, _ in history()] == ["admin", "admin"]
    assert "thanks" in history()[0][1]


def test_operators_reference_is_unique_over_bulk_pages(admin_client: Client, token: ApiToken) -> None:
    other = issue_token("other")
    submit(admin_client, page(token, "top-up"), amount=5, reason="paid", own_reference="INV-1")
    send(admin_client, token, other, own_reference="INV-1")
    assert [amounts(one, "top-up") for one in (token, other)] == [[5], [5]]
    send(admin_client, token, other, own_reference="INV-1")
    assert "Already recorded with reference INV-1; nothing added." in admin_client.get(LIST).text
    _, answer = send(admin_client, token, other, own_reference="INV-1", amount=6)
    assert "2 of 2 tokens were not topped up" in answer.text
    assert f"other (#{other.pk}): This reference was used for another entry" in answer.text


def test_bulk_retry_tops_up_only_what_failed(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, last = issue_token("busy"), issue_token("last")
    really = credits.top_up

    def top_up(**fields: Any) -> tuple[CreditEntry, bool]:
        result = really(**fields)  # must be rolled back
        if fields["token"].pk == busy.pk:
            raise OperationalError("canceling statement due to statement timeout")
        return result

    with monkeypatch.context() as patch:
        patch.setattr(credits, "top_up", top_up)
        data, answer = send(admin_client, token, busy, last)
    assert (
        f"1 of 3 tokens were not topped up. Database errors; submit again to retry only these: {busy}.\n"
        in answer.text.replace("</li>", "\n")
    )
    assert [balance(one) for one in (token, busy, last)] == [35, 30, 35]
    assert len(history()) == 2
    sent_again = {**hidden_fields(answer), "amount": 5, "reason": "thanks"}
    assert sent_again == data
    assert admin_client.post(BULK, sent_again).status_code == 302
    assert [amounts(one, "top-up") for one in (token, busy, last)] == [[5]] * 3
    assert len(history()) == 3
    assert audit.audit() == []


def test_bulk_page_says_no_retry_for_refused_tokens(admin_client: Client, token: ApiToken) -> None:
    other = issue_token("other")
    data = {**hidden_fields(select(admin_client, token, other)), "amount": 5, "reason": "thanks"}
    tokens.revoke(token=other)
    answer = admin_client.post(BULK, data)
    assert f"1 of 2 tokens were not topped up. {other}: This token is revoked, so nobody could spend" in answer.text
    assert "submit again" not in answer.text.lower()
    assert f"Adds the amount to each of 2 tokens: {token}, {other}." in answer.text
    assert [balance(one) for one in (token, other)] == [35, 30]


def test_pages_name_no_reference_that_was_not_given(admin_client: Client, token: ApiToken) -> None:
    single = {**hidden_fields(admin_client.get(page(token, "top-up"))), "amount": 5, "reason": "many thanks"}
    bulk, _ = send(admin_client, token)
    admin_client.post(page(token, "top-up"), single)
    for url, fields in ((page(token, "top-up"), single), (BULK, bulk)):
        answer = admin_client.post(url, {**fields, "amount": 6})
        assert "This page was submitted before with another amount or price. Open it again" in answer.text
        assert "This reference" not in answer.text
    assert amounts(token, "top-up") == [5, 5]


def test_bulk_page_does_not_exceed_the_allowance(support: Client, token: ApiToken) -> None:
    other = issue_token("other")
    _, refused = send(support, token, other, amount=60)
    assert f"{other}: Only 40 of your 100 credits in 24 hours are left" in refused.text
    assert [balance(one) for one in (token, other)] == [90, 30]
    data, _ = send(support, other, amount=40)
    assert support.post(BULK, data).status_code == 302
    assert [balance(one) for one in (token, other)] == [90, 70]


@pytest.mark.parametrize("wrong", ["", "x", "1,", "1;2", "9" * 19, "999999", ",".join(map(str, range(1, 902)))])
def test_invalid_bulk_page_adds_nothing(admin_client: Client, token: ApiToken, wrong: str) -> None:
    fields = {"once": str(uuid4()), "tokens": wrong, "amount": 5, "reason": "x"}
    assert "errorlist" in admin_client.post(BULK, fields).text
    assert balance(token) == 30


def test_select_across_takes_the_search_results_up_to_a_limit(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [issue_token(f"shop {n}") for n in range(3)]
    url = f"{LIST}?q=shop"
    action = {"action": "top_up_selected", "_selected_action": named[0].pk, "select_across": "1"}
    assert hidden_fields(admin_client.post(url, action))["tokens"] == ",".join(str(one.pk) for one in named)
    monkeypatch.setattr(top_ups, "MAX_AT_ONCE", 2)
    refused = admin_client.post(url, action, follow=True)
    assert "Select 1 to 2 tokens" in refused.text
    assert not CreditEntry.objects.filter(kind="top-up").exists()
