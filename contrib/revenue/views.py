"""The page of revenue: what each customer brought in a calendar month or quarter and what its searches cost, with an
export."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from threading import Lock
from typing import Any, cast

from cachetools import TTLCache, cached
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from accounts.admin import ledger_export
from accounts.models import CreditEntry, Customer
from contrib.revenue import monthly
from contrib.revenue.costs import cost_by_customer
from contrib.revenue.monthly import CustomerSums
from core import history, periods
from core.admin import require
from core.csv_cells import in_parts
from core.long_lists import first_row_at
from core.periods import CalendarPeriod
from core.retention import KEPT_DAYS, oldest_kept
from core.sorting import none_last
from monitoring import source_report

#: Rows on the page; the export has all.
MAX_SHOWN = 200
VIEW, EXPORT, VIEW_COST = "accounts.view_creditentry", "accounts.export_creditentry", "monitoring.view_source"
#: What the table has, and can be sorted by; with the currency.
COLUMNS = {
    "name": "Customer",
    "sales": "Sales ({})",
    "spent": "Credits spent",
    "revenue": "Revenue ({})",
    "cost": "Cost of sources ({})",
    "margin": "Margin ({})",
    "margin_percent": "Margin (%)",
}
_OF_COST = ("cost", "margin", "margin_percent")


@dataclass(frozen=True, slots=True)
class Row:
    """`customer_id`: None for the total, and for what belongs to no customer. `revenue`: None if no price is known.
    `cost`: None if it is unknown (the month is older than the statistics, or its calls were recorded without a token),
    or for users who may not view it."""

    name: str
    customer_id: int | None
    sales: Decimal
    spent: int
    revenue: Decimal | None
    cost: Decimal | None

    @property
    def margin(self) -> Decimal | None:
        return None if self.revenue is None or self.cost is None else self.revenue - self.cost

    @property
    def margin_percent(self) -> Decimal | None:
        """Of the revenue."""
        margin = self.margin
        return (100 * margin / self.revenue).quantize(Decimal("0.1")) if margin is not None and self.revenue else None


def view(request: HttpRequest) -> HttpResponse:
    """A POST exports the table, because that writes the history."""
    require(request.method != "POST" or request.user.has_perm(EXPORT))
    now = timezone.now()
    month, sees_cost = _period(request.GET, now), request.user.has_perm(VIEW_COST)
    # `prune` may have deleted the statistics of the first days.
    has_cost = sees_cost and month.since >= oldest_kept()
    columns = {name: title for name, title in COLUMNS.items() if sees_cost or name not in _OF_COST}
    order = request.GET.get("sort", "")
    if order.removeprefix("-") not in columns:
        order = "-revenue"
    context = {
        "title": "Revenue",
        "month": month,
        "months": [month.previous, month, *([month.next] if month.until <= now else [])],
        "current": CalendarPeriod.of(now, month.length),
        "calendars": periods.calendars(_first_entry_at(now), now),
        "unit": month.unit,
        "is_complete": month.until <= now,
        "headings": _headings(columns, order),
        "sort": order,
        "sees_cost": sees_cost,
        "kept_days": KEPT_DAYS,
        "cost_is_unknown": sees_cost and not has_cost,
        "currency": settings.CURRENCY,
    }
    try:
        rows, calls_without_price, unattributed = _rows(month, has_cost=has_cost)
    except OperationalError:
        context["timed_out"] = True
    else:
        if request.method == "POST":
            return _export(request, month, columns, _sorted(rows, order))
        context |= {"rows": _sorted(rows, order)[:MAX_SHOWN], "more": max(0, len(rows) - MAX_SHOWN)}
        context |= {"total": _total(rows, has_cost=has_cost), "calls_without_price": calls_without_price}
        context["unattributed"] = unattributed
        customers = rows[:-1]
        context["costs_are_unknown"] = bool(customers and unattributed) and all(row.cost is None for row in customers)
        context["credits_without_price"] = sum(row.spent for row in rows if row.revenue is None)
    return TemplateResponse(request, "revenue/page.html", {**admin.site.each_context(request), **context})


def _period(query: Mapping[str, str], now: datetime) -> CalendarPeriod:
    """The month or quarter that the URL parameter `month` names; the last complete month if it names none, or one that
    has not begun."""
    found = CalendarPeriod.parse(query.get("month", ""))
    return found if found and found.since <= now and found.since.year >= 2000 else CalendarPeriod.of(now).previous


def _first_entry_at(now: datetime) -> datetime:
    """Now if there is none, or the query times out."""
    with suppress(OperationalError):
        return first_row_at(CreditEntry.objects.all())
    return now


#: The dashboard's figure, which takes seconds with millions of entries, and changes only if somebody moves a token or
#: changes a price.
earned_cache: TTLCache[Any, tuple[Decimal, bool]] = TTLCache(maxsize=1, ttl=600)


@cached(earned_cache, lock=Lock())
def _earned(month: CalendarPeriod) -> tuple[Decimal, bool]:
    """The revenue of a complete month, up to ten minutes old, and whether it lacks credits without a price."""
    months = monthly.by_customer(month).values()
    total = sum((each.revenue or Decimal(0) for each in months), Decimal("0.00"))
    return total, any(each.revenue is None for each in months)


def last_month(request: HttpRequest) -> HttpResponse:
    """The revenue of the last complete month alone, for the dashboard, which does not wait for it (later.js)."""
    context: dict[str, Any] = {"total": None, "currency": settings.CURRENCY}
    with suppress(OperationalError):
        context["total"], context["is_incomplete"] = _earned(CalendarPeriod.of(timezone.now()).previous)
    return TemplateResponse(request, "revenue/last_month.html", context)


def _rows(month: CalendarPeriod, *, has_cost: bool) -> tuple[list[Row], int, Decimal]:
    """A row for each customer, how many calls have no price, and the cost of calls without a token, which the last row
    has. The costs are those of the sources' report."""
    months, report = monthly.by_customer(month), None
    costs: dict[int | None, Decimal] = defaultdict(source_report.no_cost)
    if has_cost:
        report = source_report.report(month.since, month.until)
        costs |= cost_by_customer(month.since, month.until)
    rest = report.cost - sum(costs.values()) if report else Decimal(0)
    is_known = has_cost and bool(costs or not rest)
    keys = months.keys() | costs.keys()
    owners = [key for key in keys if key is not None]
    names = dict(Customer.objects.filter(pk__in=owners).values_list("pk", "name"))
    rows = []
    for key in keys:
        figures = months.get(key, CustomerSums())
        name = "Tokens without a customer" if key is None else names.get(key, f"Customer #{key}")
        cost = costs[key] if is_known else None
        rows.append(Row(name, key, _exact(figures.sales), figures.spent, figures.revenue, cost))
    if rest:
        rows.append(Row("Calls without a token", None, Decimal("0.00"), 0, Decimal("0.00"), rest))
    return rows, report.calls_without_price if report else 0, rest


def _total(rows: Collection[Row], *, has_cost: bool) -> Row:
    """The sums of what is known."""
    spent = sum(row.spent for row in rows)
    sums = [[getattr(row, name) or Decimal(0) for row in rows] for name in ("sales", "revenue", "cost")]
    sales, revenue, cost = (sum(amounts, Decimal(0)) for amounts in sums)
    return Row("Total", None, sales, spent, revenue, cost if has_cost else None)


def _exact(amount: Decimal) -> Decimal:
    """With two decimals, or as many more as it needs."""
    rounded = amount.quantize(Decimal("0.01"))
    return rounded if rounded == amount else amount.normalize()


def _sorted(rows: Iterable[Row], order: str) -> list[Row]:
    """By the column `order`, descending with `-` before it; rows without a figure last."""
    column, reverse = order.removeprefix("-"), order.startswith("-")
    by_name = sorted(rows, key=lambda row: (row.name.casefold(), row.customer_id or 0))
    if column == "name":
        return by_name[::-1] if reverse else by_name
    return none_last(by_name, attrgetter(column), reverse=reverse)


def _headings(columns: dict[str, str], order: str) -> list[dict[str, str]]:
    """Each with the value of `sort` that its link sets: names ascending first, figures descending."""
    headings = []
    for name, title in columns.items():
        first, other = (name, f"-{name}") if name == "name" else (f"-{name}", name)
        direction = {name: "ascending", f"-{name}": "descending"}.get(order, "")
        heading = title.format(settings.CURRENCY)
        headings.append({"title": heading, "sort": other if order == first else first, "sorted": direction})
    return headings


def _export(request: HttpRequest, month: CalendarPeriod, columns: Iterable[str], rows: list[Row]) -> HttpResponse:
    file_name = f"revenue-{month.key}.csv"
    history.record(
        user=cast(User, request.user),
        action=history.Action.EXPORT,
        model=CreditEntry,
        name="export",
        message=f"Exported {file_name}.",
    )
    lines: list[tuple[Any, ...]] = [(month.unit, "currency", "customer_id", *columns)]
    for row in rows:
        figures = (ledger_export.cell(getattr(row, name)) for name in columns)
        lines.append((month.key, settings.CURRENCY, ledger_export.cell(row.customer_id), *figures))
    return HttpResponse(
        in_parts(lines),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{file_name}"'},
    )
