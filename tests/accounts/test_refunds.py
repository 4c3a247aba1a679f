"""A search is refunded once, by a ledger entry that refers to it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connections, transaction
from django.utils import timezone

from accounts import audit, credits
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.accounts.admin.pages import NUMBER, amounts, balance

pytestmark = pytest.mark.django_db


def test_refund_returns_the_credit(search: CreditEntry) -> None:
    row = credits.refund(entry=search, actor="op", reason=" wrong name ")
    assert (row.kind, row.amount, row.balance_after, row.refunds_id) == ("refund", 1, 30, search.pk)
    assert (row.actor, row.reason, row.reference, row.request_id) == ("op", "wrong name", "", "")
    assert row.number_hash is None
    assert (balance(search.token), audit.audit()) == (30, [])


def test_second_refund_changes_nothing(search: CreditEntry) -> None:
    credits.refund(entry=search, actor="op", reason="wrong name")
    with pytest.raises(credits.NotRefundable, match="This search was refunded before"):
        credits.refund(entry=search, actor="other", reason="again")
    assert (balance(search.token), amounts(search.token, "refund"), audit.audit()) == (30, [1], [])


def test_each_search_has_its_own_refund(token: ApiToken, search: CreditEntry) -> None:
    awaited.charge(token=token, request_id="req-1", number=NUMBER, answer={})
    for entry in token.entries.filter(kind="search"):
        credits.refund(entry=entry, actor="op", reason="wrong name")
    assert (balance(token), amounts(token, "refund")) == (30, [1, 1])


def test_only_a_search_is_refunded(search: CreditEntry) -> None:
    token = search.token
    credits.top_up(token=token, amount=5, actor="op", reason="paid")
    credits.adjust(token=token, amount=-5, actor="op", reason="mistake")
    credits.refund(entry=search, actor="op", reason="wrong name")
    for row in token.entries.exclude(kind="search"):
        with pytest.raises(credits.NotRefundable, match="Only a search is refunded"):
            credits.refund(entry=row, actor="op", reason="x")
    assert balance(token) == 30


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201])
def test_refund_requires_a_reason(search: CreditEntry, reason: str) -> None:
    with pytest.raises(ValueError, match="A reason of 1 to 200 characters"):
        credits.refund(entry=search, actor="op", reason=reason)
    assert balance(search.token) == 29


def test_search_of_a_revoked_token_is_refunded(search: CreditEntry) -> None:
    ApiToken.objects.update(revoked_at=timezone.now())
    credits.refund(entry=search, actor="op", reason="wrong name")
    assert balance(search.token) == 30


def test_refunds_count_towards_the_daily_allowance(search: CreditEntry, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 5
    op, other = (User.objects.create(username=name) for name in ("op", "other"))
    old = {"token": search.token, "amount": 5, "balance_after": 35, "kind": "top-up", "actor": "op"}
    CreditEntry.objects.create(**old, created_at=timezone.now() - timedelta(hours=24, seconds=1))
    credits.refund(entry=search, actor="op", reason="wrong name")
    credits.adjust(token=search.token, amount=-3, actor="op", reason="mistake")
    credits.require_allowance(user=op, amount=4)
    with pytest.raises(credits.AllowanceExceeded, match="Only 4 of your 5 credits in 24 hours are left"):
        credits.require_allowance(user=op, amount=5)
    credits.require_allowance(user=other, amount=5)


def test_database_refuses_a_second_refund_of_a_search(search: CreditEntry) -> None:
    credits.refund(entry=search, actor="op", reason="wrong name")
    values = {"token": search.token, "amount": 1, "balance_after": 31, "kind": "refund", "refunds": search}
    with pytest.raises(IntegrityError), transaction.atomic():
        CreditEntry.objects.create(**values)


@pytest.mark.django_db(transaction=True)
def test_concurrent_refunds_of_one_search_are_one(search: CreditEntry) -> None:
    barrier = threading.Barrier(3)

    def refund(_: int) -> str:
        try:
            barrier.wait(10)
            credits.refund(entry=search, actor="op", reason="wrong name")
            return "refunded"
        except credits.NotRefundable as error:
            return str(error)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        outcomes = sorted(pool.map(refund, range(3)))
    assert outcomes == ["This search was refunded before."] * 2 + ["refunded"]
    assert (balance(search.token), amounts(search.token, "refund"), audit.audit()) == (30, [1], [])
