"""What the list of customers shows of each, over all its tokens. Each statement sums one table by customer: a list that
is sorted by a figure needs it for every customer, the others for its page."""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from typing import Any

from django.db.models import Aggregate, Count, F, Max, Min, Q, QuerySet, Sum, Window
from django.db.models.functions import RowNumber

from accounts import request_statistics, sales
from accounts.models import ApiToken, CreditEntry, TokenDay, UnknownCharge
from accounts.request_statistics import End
from core import db, periods

#: A statement may take so long: it may be about all customers, or about several with MAX_TOKENS each.
TIMEOUT_S = 10
#: Of a token without credits.
EMPTY = End(datetime.min.replace(tzinfo=UTC), "credits")


@dataclass(slots=True)
class CustomerFigures:
    """`balance`: of usable tokens. `usable`, `empty`: the tokens that can be used and are charged, and those of them
    without credits. `next_end`: when the first of those that have credits runs out of them or expires; None without
    any. `expires` is their first expiry. `searches`: the answered ones of the last 30 days, today (UTC) included.
    `revenue` needs the figures after it: credits of these days, and what was sold with a price at any time."""

    token_count: int = 0
    balance: int = 0
    last_charge: datetime | None = None
    usable: int = 0
    empty: int = 0
    expires: datetime | None = None
    next_end: End | None = None
    searches: int = 0
    charged: int = 0
    refunded: int = 0
    lost: int = 0
    sold_for: Decimal | None = None
    sold_credits: int = 0

    @property
    def runs_out(self) -> End | None:
        """As `next_end`, of all of `usable`."""
        return EMPTY if self.empty else self.next_end

    @property
    def revenue(self) -> Decimal | None:
        """As the customer's page has it, of the last 30 days, in CURRENCY; None if no price is known."""
        spent = sales.net_spent(self.charged, refunded=self.refunded, lost=self.lost)
        return sales.revenue(spent, sales.average_price(self.sold_for, self.sold_credits))


Ids = Collection[int]


class Found(defaultdict[int, CustomerFigures]):
    """Figures by customer. `added`: those of which statements are in it."""

    def __init__(self) -> None:
        super().__init__(CustomerFigures)
        self.added: set[Callable[..., None]] = set()


def by_customer(
    now: datetime, customer_ids: Ids | None = None, names: Collection[str] = (), found: Found | None = None
) -> Found:
    """The figures of these customers, or of all. `names`: which of FIGURES. `found`: gets what it lacks of them. At
    most six statements, which may take TIMEOUT_S each."""
    found = Found() if found is None else found
    with db.statement_timeout(TIMEOUT_S):
        for add, figures in _STATEMENTS.items():
            if add not in found.added and not figures.isdisjoint(names):
                add(found, customer_ids, now)
                found.added.add(add)
    return found


def _of(customer_ids: Ids | None, path: str) -> Q:
    return Q(**{f"{path}__isnull": False}) if customer_ids is None else Q(**{f"{path}__in": customer_ids})


def _add(found: Found, rows: QuerySet[Any], customer_ids: Ids | None, path: str, **sums: Aggregate) -> None:
    """`sums`: by the names of the figures."""
    grouped = rows.filter(_of(customer_ids, path)).values_list(path).annotate(**sums).order_by()
    for pk, *values in grouped:
        for name, value in zip(sums, values, strict=True):
            setattr(found[pk], name, value)


def _add_tokens(found: Found, customer_ids: Ids | None, now: datetime) -> None:
    usable = Q(revoked_at=None, expires_at__gt=now)
    _add(
        found,
        ApiToken.objects.all(),
        customer_ids,
        "customer",
        token_count=Count("pk"),
        balance=Sum("credits", filter=usable, default=0),
        last_charge=Max("last_charged_at"),
        usable=Count("pk", filter=usable & Q(is_test=False)),
        empty=Count("pk", filter=request_statistics.out_of_credits(now)),
        expires=Min("expires_at", filter=usable & Q(is_test=False, credits__gt=0)),
    )


def _add_ends(found: Found, customer_ids: Ids | None, now: datetime) -> None:
    """Each token runs out by itself. After `_add_tokens`, which has the first expiry, and counts those without
    credits."""
    for row in found.values():
        row.next_end = End(row.expires, "expires") if row.expires else None
    usable = ApiToken.objects.filter(_of(customer_ids, "customer"), revoked_at=None, expires_at__gt=now, is_test=False)
    in_use = request_statistics.with_charged(usable.filter(credits__gt=0), now).order_by()
    # The credits of tokens older than the days of their rate run out in the order of credits / charged, so the database
    # picks each customer's first: there may be 100,000. Younger ones are compared here.
    full_days = Q(created_at__lt=request_statistics.rate_since(now))
    place = Window(RowNumber(), partition_by="customer", order_by=F("credits") * 1.0 / F("charged"))
    first = in_use.filter(full_days).annotate(place=place).filter(place=1)
    columns = ("customer", "credits", "created_at", "expires_at", "is_test", "charged")
    found_tokens = (rows.values_list(*columns, named=True) for rows in (first, in_use.exclude(full_days)))
    for token in chain.from_iterable(found_tokens):
        row, end = found[token.customer], request_statistics.runs_out(token, token.charged, now)
        row.next_end = min(filter(None, (row.next_end, end)))


def _add_searches(found: Found, customer_ids: Ids | None, now: datetime) -> None:
    since, charged = periods.MONTH.since(now).date(), Q(outcome__in=request_statistics.CHARGED)
    days = TokenDay.objects.filter(day__gte=since, outcome__in=request_statistics.SEARCHES)
    sums = {"searches": Sum("count"), "charged": Sum("count", filter=charged, default=0)}
    _add(found, days, customer_ids, "token__customer", **sums)


def _add_sales(found: Found, customer_ids: Ids | None, now: datetime) -> None:
    refund = Q(kind=CreditEntry.Kind.REFUND, created_at__gte=periods.MONTH.since(now))
    sums = {
        "sold_for": Sum("price"),
        "sold_credits": Sum("amount", filter=Q(price__isnull=False), default=0),
        "refunded": Sum("amount", filter=refund, default=0),
    }
    _add(found, sales.booked(), customer_ids, "token__customer", **sums)


def _add_lost(found: Found, customer_ids: Ids | None, now: datetime) -> None:
    since = periods.MONTH.since(now)
    settled = UnknownCharge.objects.filter(outcome=UnknownCharge.Outcome.REFUNDED, settled_at__gte=since)
    _add(found, settled, customer_ids, "token__customer", lost=Count("pk"))


#: In this order; each adds to these figures.
_STATEMENTS: dict[Callable[[Found, Ids | None, datetime], None], frozenset[str]] = {
    _add_tokens: frozenset({"token_count", "balance", "last_charge", "runs_out"}),
    _add_ends: frozenset({"runs_out"}),
    _add_searches: frozenset({"searches", "revenue"}),
    _add_sales: frozenset({"revenue"}),
    _add_lost: frozenset({"revenue"}),
}
FIGURES = frozenset[str]().union(*_STATEMENTS.values())
