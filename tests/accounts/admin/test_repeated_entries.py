"""A page that is opened again, and filled in as before, asks before it writes the same entry again."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts import credits, customers, tokens
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.account_fixtures import Tills
from tests.accounts.admin.pages import (
    ADD,
    BULK,
    CUSTOMERS,
    NUMBER,
    amounts,
    balance,
    entry_at,
    entry_page,
    hidden_fields,
    issue_token,
    page,
    post_all_concurrently,
    select,
    submit,
)

pytestmark = pytest.mark.django_db

BOX = '<input type="checkbox" name="may_repeat"'


def search_with(token: ApiToken, request_id: str) -> CreditEntry:
    awaited.charge(token=token, request_id=request_id, number=NUMBER, answer={})
    return token.entries.get(request_id=request_id)


def pages_of(tills: Tills) -> dict[str, tuple[str, dict[str, Any], str]]:
    """By name: the page, what is entered, and what it says of an equal entry."""
    one, other = tills
    top_up = {"amount": 1_000, "reason": "March"}
    return {
        "top up": (page(one, "top-up"), top_up, "1,000 credits with this reason were added"),
        "top up a customer": (
            f"{CUSTOMERS}{one.customer_id}/top-up/",
            {**top_up, "token": one.pk},
            "1,000 credits with this reason were added",
        ),
        "adjust up": (page(one, "adjust"), top_up, "1,000 credits with this reason were added"),
        "adjust down": (page(one, "adjust"), {"amount": -1, "reason": "x"}, "1 credit with this reason was removed"),
        "move": (
            page(one, "move-credits"),
            {"to_token": other.pk, "amount": 5, "reason": "closed"},
            f"5 credits with this reason were moved to till 2 (#{other.pk})",
        ),
        "issue": (
            ADD,
            {"name": "till 3", "customer": f"#{one.customer_id}", "initial_credits": 10, "days": 30, "reason": "new"},
            "A token with 10 credits and this name was issued",
        ),
    }


@pytest.mark.parametrize("name", ["top up", "top up a customer", "adjust up", "adjust down", "move", "issue"])
def test_equal_entry_is_not_made_again_unasked(admin_client: Client, tills: Tills, name: str) -> None:
    url, fields, done = pages_of(tills)[name]
    assert BOX not in admin_client.get(url).text
    submit(admin_client, url, **fields)
    made = CreditEntry.objects.count()

    asked = submit(admin_client, url, **fields)
    assert asked.status_code == 200
    assert f"{done} less than a minute ago by admin." in asked.text
    assert BOX in asked.text
    assert [name for name, value in fields.items() if f'value="{value}"' not in asked.text] in ([], ["customer"])
    assert "Example Ltd" in asked.text
    assert "eyJhbGciOi" not in asked.text  # no token
    assert CreditEntry.objects.count() == made

    again = admin_client.post(url, {**hidden_fields(asked), "confirmed": "on", **fields, "may_repeat": "on"})
    assert again.status_code == (200 if name == "issue" else 302)
    assert CreditEntry.objects.count() == made + (2 if name == "move" else 1)


@pytest.mark.parametrize(
    "other",
    [{"amount": 999}, {"reason": "April"}, {"kind": "adjustment"}, {"minutes": 10}],
    ids=["amount", "reason", "kind", "time"],
)
def test_other_entry_is_not_asked_about(admin_client: Client, token: ApiToken, other: dict[str, Any]) -> None:
    entry = {"amount": 1_000, "reason": "March", "kind": "top-up", "minutes": 1, **other}
    entry_at(token, timezone.now() - timedelta(minutes=entry.pop("minutes"), seconds=1), **entry)
    assert submit(admin_client, page(token, "top-up"), amount=1_000, reason="March").status_code == 302


@pytest.mark.parametrize(("minutes", "ago"), [(1, "1 minute ago"), (9, "9 minutes ago")])
def test_question_says_when_and_by_whom(admin_client: Client, token: ApiToken, minutes: int, ago: str) -> None:
    when = timezone.now() - timedelta(minutes=minutes, seconds=1)
    entry_at(token, when, kind="top-up", amount=1_000, reason="March", actor="alice")
    asked = submit(admin_client, page(token, "top-up"), amount=1_000, reason="March").text
    assert f"1,000 credits with this reason were added {ago} by alice." in asked


def test_other_tokens_entry_is_not_asked_about(admin_client: Client, tills: Tills) -> None:
    for token in tills:
        assert submit(admin_client, page(token, "top-up"), amount=10, reason="March").status_code == 302


def test_resubmitted_page_is_not_asked_about(admin_client: Client, token: ApiToken) -> None:
    """It has made its entry already: nothing is to be decided."""
    url = page(token, "top-up")
    fields = {**hidden_fields(admin_client.get(url)), "amount": 10, "reason": "March"}
    assert [admin_client.post(url, fields).status_code for _ in range(2)] == [302, 302]
    assert amounts(token, "top-up") == [10]


def test_ticked_box_stays_visible_with_other_errors(admin_client: Client, token: ApiToken) -> None:
    text = submit(admin_client, page(token, "top-up"), amount=0, reason="March", may_repeat="on").text
    assert "greater than or equal to 1" in text
    assert BOX in text


def test_reason_in_other_case_and_spaces_is_the_same(admin_client: Client, token: ApiToken) -> None:
    submit(admin_client, page(token, "top-up"), amount=10, reason="paid  Straße 77")
    text = submit(admin_client, page(token, "top-up"), amount=10, reason="PAID STRASSE 77").text
    assert "10 credits with this reason were added" in text
    assert "Nothing was changed: this may have been done already." in text
    assert amounts(token, "top-up") == [10]


def test_several_tokens_get_only_what_they_lack(admin_client: Client, token: ApiToken) -> None:
    other = issue_token("other")
    submit(admin_client, page(token, "top-up"), amount=10, reason="March")
    fields = {**hidden_fields(select(admin_client, token, other)), "amount": 10, "reason": "March"}
    asked = admin_client.post(BULK, fields)
    assert "1 of 2 tokens were not topped up." in asked.text
    assert f"{token}: 10 credits with this reason were added less than a minute ago by admin." in asked.text
    assert (BOX in asked.text, amounts(token, "top-up"), amounts(other, "top-up")) == (True, [10], [10])
    assert admin_client.post(BULK, {**hidden_fields(asked), **fields, "may_repeat": "on"}).status_code == 302
    assert (amounts(token, "top-up"), amounts(other, "top-up")) == ([10, 10], [10])


def test_second_refund_with_one_reason_is_asked_about(admin_client: Client, token: ApiToken) -> None:
    first, second = search_with(token, "r1"), search_with(token, "r2")
    for _ in range(2):  # the same page twice: it has succeeded
        submit(admin_client, entry_page(first, "refund"), reason="twice")
    asked = submit(admin_client, entry_page(second, "refund"), reason="twice")
    assert "1 credit with this reason was returned less than a minute ago by admin." in asked.text
    assert (BOX in asked.text, amounts(token, "refund")) == (True, [1])
    submit(admin_client, entry_page(second, "refund"), reason="twice", may_repeat="on")
    assert amounts(token, "refund") == [1, 1]


def test_issued_twice_for_two_customers_is_not_asked(admin_client: Client, tills: Tills) -> None:
    fields = {"name": "till", "initial_credits": 0, "days": 30, "reason": "new"}
    first, second = (f"#{customers.create(name=name).pk}" for name in ("First", "Second"))
    for more in ({"customer": first}, {"customer": second}, {"initial_credits": 1}, {"is_test": "on"}):
        assert "Copy this token now." in submit(admin_client, ADD, **{**fields, **more}).text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["top up", "adjust up", "move", "issue"])
def test_two_tabs_at_one_moment_do_not_both_write(admin_user: User, tills: Tills, name: str) -> None:
    url, fields, _ = pages_of(tills)[name]
    client = Client()
    client.force_login(admin_user)
    posts = [(url, {**hidden_fields(client.get(url)), "confirmed": "on", **fields}) for _ in range(2)]
    before = CreditEntry.objects.count()
    answers = post_all_concurrently(admin_user, posts)
    assert sorted(BOX in answer.text for answer in answers) == [False, True]
    assert CreditEntry.objects.count() == before + (2 if name == "move" else 1)


def test_scripts_are_not_asked(token: ApiToken) -> None:
    for _ in range(2):
        credits.top_up(token=token, amount=10, reason="March", actor="cron")
        tokens.issue(name="same", actor="cron")
    assert balance(token) == 50


def test_question_reads_no_searches(admin_client: Client, token: ApiToken) -> None:
    """The entries of operators have an index of their own."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has another planner")
    recent = CreditEntry.objects.filter(token=token, kind="top-up", amount=1, reason="x").exclude(kind="search")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = recent.filter(created_at__gt=timezone.now() - timedelta(minutes=10)).order_by("-created_at")[:1].explain()
    assert "creditentry_token_booked" in plan or "creditentry_booked_created" in plan
