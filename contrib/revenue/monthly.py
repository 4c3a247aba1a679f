"""What each customer brought in a calendar month or quarter: sums of the ledger, so that their totals are the ledger's.

Sales are the prices of the month's entries. Spent are its searches less its refunds; of a search that was answered with
500, debit and refund are both in the ledger and cancel out. Revenue is the credits spent times the customer's average
price up to the end of the month, so that later sales do not change it.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils import timezone

from accounts import sales
from accounts.models import CreditEntry
from core import db
from core.periods import CalendarPeriod

REPORT_TIMEOUT_S = 20
_SPENDING = (CreditEntry.Kind.SEARCH, CreditEntry.Kind.REFUND)


@dataclass(slots=True)
class CustomerSums:
    """`spent`: credits, less those refunded. `revenue`: None if it is unknown."""

    sales: Decimal = Decimal(0)
    spent: int = 0
    revenue: Decimal | None = Decimal("0.00")


def by_customer(period: CalendarPeriod) -> dict[int | None, CustomerSums]:
    """By key of the customer that has the token now, None for tokens without one; only those whose tokens had entries
    in `period`; of a quarter, the sums of its months. Two statements for each month that has begun, which may take
    REPORT_TIMEOUT_S each: they read millions of entries."""
    found: dict[int | None, CustomerSums] = {}
    now = timezone.now()
    for month in (each for each in period.months if each.since <= now):
        for customer_id, row in _by_month(month).items():
            total = found.setdefault(customer_id, CustomerSums())
            total.sales += row.sales
            total.spent += row.spent
            total.revenue = None if total.revenue is None or row.revenue is None else total.revenue + row.revenue
    return found


def _by_month(month: CalendarPeriod) -> dict[int | None, CustomerSums]:
    found: dict[int | None, CustomerSums] = {}
    entries = CreditEntry.objects.filter(created_at__gte=month.since, created_at__lt=month.until)
    with db.statement_timeout(REPORT_TIMEOUT_S):
        sums = list(_by_customer(entries, "kind").annotate(Sum("amount"), Sum("price")))
        averages = _average_prices(month)
    for customer_id, kind, credits, price in sums:
        row = found.setdefault(customer_id, CustomerSums())
        row.sales += price or 0
        row.spent -= credits if kind in _SPENDING else 0
    for customer_id, row in found.items():
        if row.spent:
            row.revenue = sales.revenue(row.spent, averages.get(customer_id, sales.average_price(None, 0)))
    return found


def _average_prices(month: CalendarPeriod) -> dict[int | None, Decimal | None]:
    priced = sales.booked().filter(price__isnull=False, created_at__lt=month.until)
    sums = _by_customer(priced).annotate(Sum("price"), Sum("amount"))
    return {customer_id: sales.average_price(total, credits) for customer_id, total, credits in sums}


def _by_customer(entries: QuerySet[CreditEntry], *columns: str) -> QuerySet[CreditEntry, Any]:
    return entries.values_list("token__customer", *columns).order_by()
