"""What customers brought in a calendar month is a sum of the ledger, whatever happened in it."""

from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from accounts import charging, credits, customers, tokens
from accounts.models import ApiToken, CreditEntry
from contrib.revenue import monthly
from contrib.revenue.monthly import CustomerSums
from core.periods import CalendarPeriod
from tests import awaited
from tests.account_fixtures import tokens_of_one_customer
from tests.accounts.admin.pages import NUMBER

MARCH = CalendarPeriod(datetime(2026, 3, 1, tzinfo=UTC))
Operation = Callable[[ApiToken, ApiToken, int], Any]


def spend(token: ApiToken, other: ApiToken, amount: int) -> None:
    for _ in range(amount):
        awaited.charge(token=token, request_id="r", number=NUMBER, answer={})


def top_up(token: ApiToken, other: ApiToken, amount: int) -> None:
    credits.top_up(token=token, amount=amount, price=Decimal(amount) / 8, actor="op", reason="paid")


def adjust(token: ApiToken, other: ApiToken, amount: int) -> None:
    credits.adjust(token=token, amount=-amount, price=Decimal(-amount) / 4, actor="op", reason="wrong invoice")


def refund(token: ApiToken, other: ApiToken, amount: int) -> None:
    for entry in token.entries.filter(kind="search", refunded_by=None)[:amount]:
        credits.refund(entry=entry, actor="op", reason="wrong")


def transfer(token: ApiToken, other: ApiToken, amount: int) -> None:
    credits.transfer(from_token=token, to_token=other, amount=amount, reason="moved", actor="op")


def revoke(token: ApiToken, other: ApiToken, amount: int) -> None:
    tokens.revoke_and_move(token=token, to_token=other, reason="closed", actor="op")


def written_before(token: ApiToken, other: ApiToken, amount: int) -> None:
    """In the month before, and in its last and the next month's first moment."""
    month = CalendarPeriod.of(timezone.now().astimezone(UTC))
    for at in (month.since - timedelta(microseconds=1), month.since):
        CreditEntry.objects.create(token=token, kind="search", amount=-1, balance_after=0, created_at=at)
        CreditEntry.objects.create(
            token=token, kind="top-up", amount=amount, price=amount, balance_after=0, created_at=at
        )


OPERATIONS: list[Operation] = [spend, top_up, adjust, refund, transfer, revoke, written_before]
REFUSED = (charging.NoCreditsLeft, credits.ChangeRefused, tokens.TokenRevoked)


def entry(token: ApiToken, kind: str, amount: int, at: datetime, price: str | None = None) -> None:
    CreditEntry.objects.create(
        token=token,
        kind=kind,
        amount=amount,
        balance_after=9,
        created_at=at,
        price=None if price is None else Decimal(price),
    )


@pytest.mark.django_db
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 3), st.integers(0, 3), st.integers(1, 6)), max_size=20
    )
)
def test_totals_equal_the_ledger_after_any_operations(
    db: None, operations: list[tuple[Operation, int, int, int]]
) -> None:
    with transaction.atomic():
        owned = [*tokens_of_one_customer(10, 10), tokens.issue(name="x", initial_credits=9, actor="op").token]
        owned.append(tokens.issue(name="y", initial_credits=9, actor="op", customer=customers.create(name="Y")).token)
        for operation, index, other, amount in operations:
            with suppress(*REFUSED):
                operation(owned[index], owned[other], amount)
        now = CalendarPeriod.of(timezone.now().astimezone(UTC))
        sold, spent, totals = defaultdict[Any, Decimal](Decimal), Counter[Any](), Counter[Any]()
        for row in CreditEntry.objects.select_related("token"):
            key = CalendarPeriod.of(row.created_at), row.token.customer_id
            sold[key] += row.price or 0
            spent[key] -= row.amount if row.kind in ("search", "refund") else 0
            totals[row.kind] += row.amount
        found = {
            (month, customer): figures
            for month in (now.previous.previous, now.previous, now, now.next)
            for customer, figures in monthly.by_customer(month).items()
        }
        assert {key: (each.sales, each.spent) for key, each in found.items()} == {
            key: (sold[key], spent[key]) for key in spent.keys() | sold.keys()
        }
        assert sum(each.spent for each in found.values()) == -(totals["search"] + totals["refund"])
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_example_of_the_documentation(settings: Any) -> None:
    settings.CREDIT_PRICE = None
    shop, other = tokens_of_one_customer(0, 0)
    free = tokens.issue(name="trial", initial_credits=0, actor="op").token
    noon = MARCH.since + timedelta(hours=12)
    entry(shop, "top-up", 1000, noon - timedelta(days=20), "20")
    entry(shop, "top-up", 3000, noon, "40")
    for kind, amount in (("search", -1),) * 4 + (("refund", 1),):
        entry(other, kind, amount, noon)
    entry(free, "search", -1, noon)
    figures = monthly.by_customer(MARCH)
    assert figures == {
        shop.customer_id: CustomerSums(Decimal(40), 3, Decimal("0.04")),
        None: CustomerSums(Decimal(0), 1, None),
    }


@pytest.mark.django_db
def test_a_quarter_is_the_sum_of_its_months(settings: Any, token: ApiToken) -> None:
    settings.CREDIT_PRICE = None
    quarter = CalendarPeriod.of(MARCH.since, 3)
    for month, price in zip(quarter.months, ("20", "40", "60"), strict=True):
        entry(token, "top-up", 1000, month.since, price)
        entry(token, "search", -1000, month.until - timedelta(microseconds=1))
    entry(token, "search", -1, quarter.until)
    free = tokens.issue(name="trial", initial_credits=0, actor="op", customer=customers.create(name="Free")).token
    entry(free, "search", -1, MARCH.since)
    found = monthly.by_customer(quarter)
    assert found[token.customer_id] == CustomerSums(Decimal(120), 3000, Decimal(20 + 30 + 40))
    assert found[free.customer_id] == CustomerSums(Decimal(0), 1, None)


@pytest.mark.django_db
def test_months_that_have_not_begun_are_not_read(monkeypatch: pytest.MonkeyPatch, token: ApiToken) -> None:
    monkeypatch.setattr(timezone, "now", lambda: MARCH.since)
    with CaptureQueriesContext(connection) as captured:
        monthly.by_customer(CalendarPeriod.of(MARCH.since, 3))
        monthly.by_customer(CalendarPeriod.of(MARCH.until, 3))
    assert len([query for query in captured if "GROUP BY" in query["sql"]]) == 2 * 3


@pytest.mark.django_db
def test_later_sales_do_not_change_a_month(settings: Any, token: ApiToken) -> None:
    settings.CREDIT_PRICE = None
    entry(token, "top-up", 100, MARCH.since, "200")
    entry(token, "search", -1, MARCH.until - timedelta(microseconds=1))
    before = monthly.by_customer(MARCH)
    assert before[None].revenue == Decimal(2)
    entry(token, "top-up", 100, MARCH.until, "900")
    assert monthly.by_customer(MARCH) == before


@pytest.mark.django_db
def test_a_month_is_read_by_indexes(token: ApiToken) -> None:
    with CaptureQueriesContext(connection) as captured:
        monthly.by_customer(MARCH)
    reports = [query["sql"] for query in captured if "GROUP BY" in query["sql"]]
    assert len(reports) == 2
    for statement in reports:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{statement}")
            assert "creditentry_created" in str(plan := cursor.fetchall()) or "_booked" in str(plan)
