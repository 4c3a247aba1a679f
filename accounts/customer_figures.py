"""What the list of customers shows of each, over all its tokens. The figures are computed by the database, each for the
rows that need it: a list sorted by one of them needs it for every customer, the others only for its page."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import BigIntegerField, Count, DateTimeField, DecimalField, Max, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from accounts import request_statistics, sales
from accounts.models import ApiToken, Customer, TokenDay
from core import periods

#: In place of the last charge of customers that were never charged: both databases sort it before all others.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def _tokens() -> QuerySet[Any]:
    return ApiToken.objects.filter(customer=OuterRef("pk")).order_by().values("customer")


def _usable(now: datetime) -> QuerySet[Any]:
    return _tokens().filter(revoked_at=None, expires_at__gt=now)


def _searches(now: datetime) -> QuerySet[Any]:
    days = TokenDay.objects.filter(
        token__customer=OuterRef("pk"),
        day__gte=periods.MONTH.since(now).date(),
        outcome__in=request_statistics.SEARCHES,
    )
    return days.order_by().values("token__customer").annotate(total=Sum("count"))


def _paid(now: datetime) -> QuerySet[Any]:
    entries = sales.booked().filter(token__customer=OuterRef("pk"), created_at__gte=periods.MONTH.since(now))
    return entries.order_by().values("token__customer").annotate(total=Sum("price"))


def _total(rows: QuerySet[Any], output: Any, default: Any) -> Any:
    """The `total` of the one group in `rows`; `default` if there is none, or if it is NULL."""
    return Coalesce(Subquery(rows.values("total"), output_field=output), default, output_field=output)


#: Name → the expression. `balance` is the sum over usable tokens; `searches_30d` the answered searches of the last 30
#: days, today (UTC) included; `paid_30d` the prices of the ledger entries of these days, in CURRENCY;
#: `last_charged_at` the last charge of any token, or NEVER.
FIGURES: dict[str, Callable[[datetime], Any]] = {
    "token_count": lambda now: _total(_tokens().annotate(total=Count("pk")), BigIntegerField(), 0),
    "balance": lambda now: _total(_usable(now).annotate(total=Sum("credits")), BigIntegerField(), 0),
    "searches_30d": lambda now: _total(_searches(now), BigIntegerField(), 0),
    "paid_30d": lambda now: _total(_paid(now), DecimalField(max_digits=20, decimal_places=4), Decimal(0)),
    "last_charged_at": lambda now: _total(_tokens().annotate(total=Max("last_charged_at")), DateTimeField(), NEVER),
}


def annotated(
    customers: QuerySet[Customer], now: datetime, figures: Collection[str] = tuple(FIGURES)
) -> QuerySet[Customer]:
    """The customers with these FIGURES."""
    return customers.annotate(**{name: FIGURES[name](now) for name in figures})
