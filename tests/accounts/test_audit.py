"""The audit of balances finds every kind of entry and balance that does not agree."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, credits, tokens
from accounts.audit import Disagreement
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.account_fixtures import tokens_of_one_customer
from tests.accounts.admin.pages import NUMBER

pytestmark = pytest.mark.django_db


def charge(token: ApiToken, how_many: int = 1) -> None:
    for _ in range(how_many):
        awaited.charge(token=token, request_id="r", number=NUMBER, answer={})


def insert(token: ApiToken, **values: Any) -> CreditEntry:
    """An entry written without the service, so that the balance does not change."""
    return CreditEntry.objects.create(token=token, **{"amount": 0, "balance_after": 30, "kind": "adjustment", **values})


def test_inserted_entry_with_wrong_balance_is_found(token: ApiToken) -> None:
    charge(token)
    forged = insert(token, balance_after=5)
    assert audit.audit() == [Disagreement(token.pk, "pbx", 29, 29, 5, forged.pk)]


def test_wrong_entry_is_found_when_later_ones_are_right(token: ApiToken) -> None:
    forged = insert(token, balance_after=5)
    charge(token, 3)
    assert audit.audit() == [Disagreement(token.pk, "pbx", 27, 27, 27, forged.pk)]


def test_two_entries_that_cancel_out_are_found(token: ApiToken) -> None:
    first = insert(token, amount=50, balance_after=30)
    insert(token, amount=-50, balance_after=30)
    assert audit.audit() == [Disagreement(token.pk, "pbx", 30, 30, 30, first.pk)]


def test_first_entry_of_a_token_starts_from_zero(token: ApiToken) -> None:
    other = ApiToken.objects.create(name="other", jti="x" * 32, lifetime_days=1, expires_at=timezone.now(), credits=7)
    row = insert(other, amount=5, balance_after=7)
    assert audit.audit() == [Disagreement(other.pk, "other", 7, 5, 7, row.pk)]


def test_token_without_entries_must_have_no_credits(token: ApiToken) -> None:
    other = ApiToken.objects.create(name="other", jti="x" * 32, lifetime_days=1, expires_at=timezone.now())
    assert audit.audit() == []
    ApiToken.objects.filter(pk=other.pk).update(credits=2)
    assert audit.audit() == [Disagreement(other.pk, "other", 2, 0, None, None)]


# --- Transfers ---------------------------------------------------------------------------------------------------


def test_transfers_of_several_tokens_have_counterparts() -> None:
    one, two, three = tokens_of_one_customer(30, 30, 30)
    for source, target in ((one, two), (two, one), (two, three), (one, two)):
        credits.transfer(from_token=source, to_token=target, amount=5, actor="op", reason="x")
    credits.transfer(from_token=one, to_token=two, amount=5, actor="op", reason="x", reference="r")
    credits.transfer(from_token=three, to_token=one_more(three), amount=5, actor="op", reason="x", reference="r")
    assert (audit.audit(), audit.unpaired_transfers()) == ([], [])
    assert audit.unpaired_transfers(since=timezone.now() - timedelta(days=1)) == []


def one_more(token: ApiToken) -> ApiToken:
    return tokens.issue(name="one more", customer=token.customer, actor="test").token


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 6},
        {"amount": -5},
        {"kind": "adjustment"},
        {"reference": "another"},
        {"reference": ""},
        {"other_token": None},
        {"other_token": "itself"},
    ],
)
def test_transfer_with_a_wrong_counterpart_is_found(wrong: dict[str, Any]) -> None:
    one, two = tokens_of_one_customer(30, 30)
    right: dict[str, Any] = {"kind": "transfer", "reference": "r"}
    taken = insert(one, **right, amount=-5, other_token=two)
    assert audit.unpaired_transfers() == [taken.pk]
    if wrong.get("other_token") == "itself":
        wrong = {"other_token": two}
    given = insert(two, **{**right, "amount": 5, "other_token": one, **wrong})
    assert audit.unpaired_transfers() == [entry.pk for entry in (taken, given) if entry.kind == "transfer"]
    tomorrow = timezone.now() + timedelta(days=1)
    assert audit.unpaired_transfers(since=tomorrow) == []


def test_transfer_with_two_counterparts_is_found() -> None:
    one, two = tokens_of_one_customer(30, 30)
    made = credits.transfer(from_token=one, to_token=two, amount=5, actor="op", reason="x")
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX creditentry_reference_once")
    values = {"kind": "transfer", "reference": made.given.reference}
    insert(two, **values, amount=5, other_token=one)
    assert audit.unpaired_transfers() == [made.taken.pk]


def test_transfers_are_checked_without_reading_searches(token: ApiToken) -> None:
    with CaptureQueriesContext(connection) as captured:
        audit.unpaired_transfers()
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{captured[0]['sql']}")
        plan = str(cursor.fetchall())
    assert re.search("creditentry_(booked|token_booked)", plan), plan
    assert "creditentry_reference_" in plan


# --- Since a day -------------------------------------------------------------------------------------------------


@pytest.fixture
def aged(token: ApiToken) -> ApiToken:
    """A token with a wrong entry from ten days ago and correct ones from today."""
    insert(token, created_at=timezone.now() - timedelta(days=10), balance_after=5)
    charge(token, 2)
    return token


def test_since_does_not_check_earlier_balances(aged: ApiToken) -> None:
    _, wrong, first_search, _ = aged.entries.order_by("pk")
    assert [row.first_wrong_row for row in audit.audit()] == [wrong.pk]
    assert audit.audit(since=first_search.created_at) == []


def test_since_finds_a_wrong_entry_and_a_wrong_balance(aged: ApiToken) -> None:
    since = aged.entries.order_by("pk")[2].created_at
    forged = insert(aged, balance_after=5)
    assert audit.audit(since=since) == [Disagreement(aged.pk, "pbx", 28, None, 5, forged.pk)]
    charge(aged)
    ApiToken.objects.filter(pk=aged.pk).update(credits=99)
    assert audit.audit(since=since) == [Disagreement(aged.pk, "pbx", 99, None, 27, forged.pk)]


def test_since_finds_entries_whose_times_are_not_in_order(aged: ApiToken) -> None:
    """A search takes its time before it waits for its token's lock, so an earlier time may have a later id."""
    since = timezone.now()
    insert(aged, created_at=since + timedelta(seconds=3), balance_after=28)
    forged = insert(aged, created_at=since + timedelta(seconds=2), balance_after=5)
    insert(aged, created_at=since + timedelta(seconds=1), balance_after=5)
    ApiToken.objects.filter(pk=aged.pk).update(credits=5)
    assert audit.audit(since=since) == [Disagreement(aged.pk, "pbx", 5, None, 5, forged.pk)]


# --- While it is written -----------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_ids_follow_the_order_of_concurrent_changes(token: ApiToken) -> None:
    """Concurrent searches (one statement) and adjustments (several statements) of one token."""
    barrier = Barrier(3)

    def change(adjust: bool) -> None:
        try:
            barrier.wait(10)
            for n in range(10):
                if adjust:
                    credits.adjust(token=token, amount=2, actor="op", reason=f"{n}")
                else:
                    charge(token)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(change, [True, False, False]))
    assert (ApiToken.objects.get().credits, audit.audit()) == (30, [])


# --- What the database refuses -----------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["TRUNCATE accounts_creditentry CASCADE", "TRUNCATE accounts_apitoken CASCADE"])
def test_ledger_cannot_be_truncated(token: ApiToken, statement: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises(DatabaseError, match="append-only"), connection.cursor() as cursor:
        cursor.execute(statement)
    assert token.entries.count() == 1
