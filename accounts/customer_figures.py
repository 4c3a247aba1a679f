"""What the list of customers shows of each, over all its tokens. The figures are computed by the database, each for the
rows that need it: a list sorted by one of them needs it for every customer, the others only for its page."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import (
    BigIntegerField,
    Count,
    DateTimeField,
    ExpressionWrapper,
    FloatField,
    Max,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.functions import Cast, Coalesce, Round

from accounts import request_statistics, sales
from accounts.models import ApiToken, CreditEntry, Customer, TokenDay, UnknownCharge
from core import periods

#: In place of the last charge of customers that were never charged: both databases sort it before all others.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


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


def _revenue(now: datetime) -> Any:
    """As the customer's page has it (accounts.sales): the credits spent at the customer's average price."""
    since = periods.MONTH.since(now)
    booked = sales.booked().filter(token__customer=OuterRef("pk")).order_by().values("token__customer")
    refunded = booked.filter(kind=CreditEntry.Kind.REFUND, created_at__gte=since).annotate(total=Sum("amount"))
    lost = UnknownCharge.objects.filter(
        token__customer=OuterRef("pk"), outcome=UnknownCharge.Outcome.REFUNDED, settled_at__gte=since
    )
    spent = sales.net_spent(
        _total(_searches(now, request_statistics.CHARGED), BigIntegerField(), 0),
        refunded=_total(refunded, BigIntegerField(), 0),
        lost=_total(lost.order_by().values("token__customer").annotate(total=Count("pk")), BigIntegerField(), 0),
    )
    sold = booked.filter(price__isnull=False).annotate(credits=Sum("amount")).filter(credits__gt=0)
    price, credits = (Cast(Sum(name), FloatField()) for name in ("price", "amount"))
    average = sold.annotate(total=Round(price / credits * 1e6) / 1e6)
    return spent * _total(average, FloatField(), float(settings.CREDIT_PRICE or 0))


def _total(rows: QuerySet[Any], output: Any, default: Any) -> Any:
    """The `total` of the one group in `rows`; `default` if there is none, or if it is NULL."""
    return Coalesce(Subquery(rows.values("total"), output_field=output), default, output_field=output)


#: Name → the expression. `balance` is the sum over usable tokens; `searches_30d` the answered searches of the last 30
#: days, today (UTC) included; `revenue_30d` the revenue of these days, in CURRENCY, 0 if no price is known;
#: `last_charged_at` the last charge of any token, or NEVER.
FIGURES: dict[str, Callable[[datetime], Any]] = {
    "token_count": lambda now: _total(_tokens().annotate(total=Count("pk")), BigIntegerField(), 0),
    "balance": lambda now: _total(_usable(now).annotate(total=Sum("credits")), BigIntegerField(), 0),
    "searches_30d": lambda now: _total(_searches(now, request_statistics.SEARCHES), BigIntegerField(), 0),
    "revenue_30d": lambda now: ExpressionWrapper(_revenue(now), FloatField()),
    "last_charged_at": lambda now: _total(_tokens().annotate(total=Max("last_charged_at")), DateTimeField(), NEVER),
}


def annotated(
    customers: QuerySet[Customer], now: datetime, figures: Collection[str] = tuple(FIGURES)
) -> QuerySet[Customer]:
    """The customers with these FIGURES."""
    return customers.annotate(**{name: FIGURES[name](now) for name in figures})
