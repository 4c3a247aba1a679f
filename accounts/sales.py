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

from django.conf import settings
from django.db.models import Q, QuerySet, Sum

from accounts.models import ApiToken, CreditEntry
from core.periods import END

_CENT = Decimal("0.01")
#: Of an average price. Revenue is calculated with the rounded average, so that it can be checked by hand.
_AVERAGE_STEP = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Sales:
    """`in_period`: what was paid in the period. `total`: what was paid so far; None if no entry has a price.
    `refunded`: credits refunded in the period. `average_price`: of a credit, of all sales so far, or CREDIT_PRICE if
    nothing was sold with a price; None if neither is known."""

    in_period: Decimal
    total: Decimal | None
    refunded: int
    average_price: Decimal | None

    def revenue(self, credits: int) -> Decimal | None:
        """The value of `credits` spent."""
        return revenue(credits, self.average_price)


def net_spent(charged: int, *, refunded: int, lost: int) -> int:
    """The credits spent, less those refunded. `charged`: from the statistics of searches, which lack those that were
    answered with 500; `lost`: how many of the refunds are for these."""
    return charged - (refunded - lost)


def average_price(total: Decimal | None, credits: int) -> Decimal | None:
    """Of a credit, if `credits` were sold for `total`; CREDIT_PRICE if none were, or if it is unknown (None)."""
    if total is None or credits <= 0:
        return settings.CREDIT_PRICE
    return (total / credits).quantize(_AVERAGE_STEP).normalize()


def revenue(credits: int, average: Decimal | None) -> Decimal | None:
    """The value of `credits` spent at this average price."""
    return None if average is None else (credits * average).quantize(_CENT)


def sales(since: datetime, token_ids: Collection[int] | None = None, *, until: datetime = END) -> Sales:
    """The sales from `since` on, of all tokens or of these, as they were known at `until`. One statement, which reads
    no searches."""
    entries = booked().filter(created_at__lt=until)
    if token_ids is not None:
        entries = entries.filter(token__in=token_ids)
    in_period = Q(created_at__gte=since)
    sums = entries.aggregate(
        total=Sum("price"),
        priced=Sum("amount", filter=Q(price__isnull=False)),
        in_period=Sum("price", filter=in_period, default=Decimal(0)),
        refunded=Sum("amount", filter=in_period & Q(kind=CreditEntry.Kind.REFUND), default=0),
    )
    average = average_price(sums["total"], sums["priced"] or 0)
    return Sales(sums["in_period"], sums["total"], sums["refunded"], average)


# --- Credits ----------------------------------------------------------------------------------------------------------


def booked() -> QuerySet[CreditEntry]:
    """The ledger without searches, which has an index of its own."""
    return CreditEntry.objects.exclude(kind=CreditEntry.Kind.SEARCH)


def ledger_sums(since: datetime, until: datetime = END) -> dict[str, int]:
    """The credits of the ledger's entries from `since` on, and before `until`, without searches, by kind. One
    statement."""
    entries = booked().filter(created_at__gte=since, created_at__lt=until)
    return dict(entries.values_list("kind").annotate(Sum("amount")).order_by())


def outstanding(now: datetime) -> tuple[int, int]:
    """The credits on usable tokens, and those on revoked or expired tokens. One statement."""
    usable = Q(revoked_at=None, expires_at__gt=now)
    sums = ApiToken.objects.aggregate(
        usable=Sum("credits", filter=usable, default=0), unusable=Sum("credits", filter=~usable, default=0)
    )
    return sums["usable"], sums["unusable"]
