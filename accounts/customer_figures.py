"""What the list of customers shows of each, over all its tokens. The figures are computed by the database, each for the
rows that need it: a list sorted by one of them needs it for every customer, the others only for its page."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import BigIntegerField, Count, DateTimeField, DecimalField, Max, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from accounts import request_statistics, sales
from accounts.models import ApiToken, CreditEntry, Customer, TokenDay, UnknownCharge
from core import periods

#: In place of the last charge of customers that were never charged: both databases sort it before all others.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_PRICE = DecimalField(max_digits=20, decimal_places=4)


def _tokens() -> QuerySet[Any]:
    return ApiToken.objects.filter(customer=OuterRef("pk")).order_by().values("customer")


def _usable(now: datetime) -> QuerySet[Any]:
    return _tokens().filter(revoked_at=None, expires_at__gt=now)


def _searches(now: datetime, outcomes: Collection[str]) -> QuerySet[Any]:
    days = TokenDay.objects.filter(
        token__customer=OuterRef("pk"),
        day__gte=periods.MONTH.since(now).date(),
        outcome__in=outcomes,
    )
    return days.order_by().values("token__customer").annotate(total=Sum("count"))


def _booked() -> QuerySet[Any]:
    return sales.booked().filter(token__customer=OuterRef("pk")).order_by().values("token__customer")


def _priced() -> QuerySet[Any]:
    return _booked().filter(price__isnull=False)


def _refunded(now: datetime) -> QuerySet[Any]:
    refunds = _booked().filter(kind=CreditEntry.Kind.REFUND, created_at__gte=periods.MONTH.since(now))
    return refunds.annotate(total=Sum("amount"))


def _lost(now: datetime) -> QuerySet[Any]:
    charges = UnknownCharge.objects.filter(
        token__customer=OuterRef("pk"),
        outcome=UnknownCharge.Outcome.REFUNDED,
        settled_at__gte=periods.MONTH.since(now),
    )
    return charges.order_by().values("token__customer").annotate(total=Count("pk"))


def _total(rows: QuerySet[Any], output: Any, default: Any) -> Any:
    """The `total` of the one group in `rows`; `default` if there is none, or if it is NULL."""
    return Coalesce(Subquery(rows.values("total"), output_field=output), default, output_field=output)


#: Name → the expression. `balance` is the sum over usable tokens; `searches_30d` the answered searches of the last 30
#: days, today (UTC) included; `last_charged_at` the last charge of any token, or NEVER. `revenue` needs the others:
#: credits of these days, and the price and the number of all credits that were sold with a price.
FIGURES: dict[str, Callable[[datetime], Any]] = {
    "token_count": lambda now: _total(_tokens().annotate(total=Count("pk")), BigIntegerField(), 0),
    "balance": lambda now: _total(_usable(now).annotate(total=Sum("credits")), BigIntegerField(), 0),
    "searches_30d": lambda now: _total(_searches(now, request_statistics.SEARCHES), BigIntegerField(), 0),
    "charged_30d": lambda now: _total(_searches(now, request_statistics.CHARGED), BigIntegerField(), 0),
    "refunded_30d": lambda now: _total(_refunded(now), BigIntegerField(), 0),
    "lost_30d": lambda now: _total(_lost(now), BigIntegerField(), 0),
    "sold_for": lambda now: _total(_priced().annotate(total=Sum("price")), _PRICE, Decimal(0)),
    "sold_credits": lambda now: _total(_priced().annotate(total=Sum("amount")), BigIntegerField(), 0),
    "last_charged_at": lambda now: _total(_tokens().annotate(total=Max("last_charged_at")), DateTimeField(), NEVER),
}


def annotated(
    customers: QuerySet[Customer], now: datetime, figures: Collection[str] = tuple(FIGURES)
) -> QuerySet[Customer]:
    """The customers with these FIGURES."""
    return customers.annotate(**{name: FIGURES[name](now) for name in figures})


def revenue(customer: Any) -> Decimal | None:
    """As the customer's page has it, of the last 30 days, in CURRENCY; None if no price is known. `customer`: annotated
    with all FIGURES."""
    spent = sales.net_spent(customer.charged_30d, refunded=customer.refunded_30d, lost=customer.lost_30d)
    return sales.revenue(spent, sales.average_price(customer.sold_for, customer.sold_credits))
