"""Sums of the ledger: what customers paid for credits, what the credits that they spent were worth, and what is left.

Sales are the prices of ledger entries in a period. Revenue is recognized when credits are spent: the credits spent,
less those refunded, times the average price of all credits sold so far (the weighted average cost method). A search
that was answered with 500 is not counted as spent, so its refund is not subtracted. Entries without a price are not
part of the average; free credits, with a price of 0, are.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet, Sum

from accounts.models import ApiToken, CreditDay, CreditEntry
from core.periods import midnight

_CENT = Decimal("0.01")
#: Of an average price. Revenue is calculated with the rounded average, so that it can be checked by hand.
_AVERAGE_STEP = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Sales:
    """`total`: what was paid in the period. `average_price`: of a credit, of all sales until now, or CREDIT_PRICE if
    nothing was sold with a price; None if neither is known."""

    total: Decimal
    average_price: Decimal | None

    def revenue(self, credits: int) -> Decimal | None:
        """The value of `credits` spent."""
        return None if self.average_price is None else (credits * self.average_price).quantize(_CENT)


def of_all_tokens(since: datetime) -> Sales:
    """The sales from `since` (UTC) on. Two statements, neither of which reads the ledger unless the period begins
    within a day."""
    total = booked(since).aggregate(total=Sum("price"))["total"]
    sums = CreditDay.objects.aggregate(paid=Sum("price"), credits=Sum("priced_amount"))
    return Sales(total or Decimal(0), _average(sums["paid"], sums["credits"]))


@dataclass(frozen=True, slots=True)
class CustomerSales:
    """`period`: from a time on. `total`: paid so far; None if no entry has a price. `refunded`: credits refunded in the
    period."""

    period: Sales
    total: Decimal | None
    refunded: int


def of_tokens(token_ids: Collection[int], since: datetime) -> CustomerSales:
    """The sales of these tokens from `since` on. One statement."""
    sums = (
        CreditEntry.objects.exclude(kind=CreditEntry.Kind.SEARCH)
        .filter(token__in=token_ids)
        .aggregate(
            total=Sum("price"),
            priced=Sum("amount", filter=Q(price__isnull=False)),
            in_period=Sum("price", filter=Q(created_at__gte=since)),
            refunded=Sum("amount", filter=Q(kind=CreditEntry.Kind.REFUND, created_at__gte=since)),
        )
    )
    period = Sales(sums["in_period"] or Decimal(0), _average(sums["total"], sums["priced"]))
    return CustomerSales(period, sums["total"], sums["refunded"] or 0)


def _average(price: Decimal | None, amount: int | None) -> Decimal | None:
    if price is None or not amount or amount < 0:
        return settings.CREDIT_PRICE
    return (price / amount).quantize(_AVERAGE_STEP).normalize()


# --- Credits ----------------------------------------------------------------------------------------------------------


def booked(since: datetime) -> QuerySet[Any]:
    """Rows with the `kind`, `amount` and `price` of ledger entries from `since` (UTC) on, without searches.

    Whole days have stored sums. A period that begins within a day is read from the ledger, by the index of all entries
    but searches.
    """
    if since == midnight(since):
        return CreditDay.objects.filter(day__gte=since.date())
    return CreditEntry.objects.filter(created_at__gte=since).exclude(kind=CreditEntry.Kind.SEARCH)


def ledger_sums(since: datetime) -> dict[str, int]:
    """The sums of `booked` rows by kind (CreditEntry.Kind). One statement."""
    return dict(booked(since).values_list("kind").annotate(Sum("amount")).order_by())


def outstanding(now: datetime) -> tuple[int, int]:
    """The credits on usable tokens, and those on revoked or expired tokens. One statement."""
    usable = Q(revoked_at=None, expires_at__gt=now)
    sums = ApiToken.objects.aggregate(
        usable=Sum("credits", filter=usable, default=0), unusable=Sum("credits", filter=~usable, default=0)
    )
    return sums["usable"], sums["unusable"]
