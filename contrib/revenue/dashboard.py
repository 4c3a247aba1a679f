"""The dashboard's block about money."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from accounts import sales
from console.blocks import Figures
from core.periods import CalendarPeriod


def money(request: HttpRequest, figures: Figures) -> dict[str, Any] | None:
    """None for users who may not view the ledger; without the margin for those who may not view sources. `revenue` and
    `margin` are estimates, at the average price of all customers: not shown of the last month, whose revenue is."""
    if (credits := figures.credits) is None:
        return None
    last_month = CalendarPeriod.of(figures.now).previous
    sold = sales.sales(figures.since, until=figures.until)
    revenue = sold.revenue(sales.net_spent(credits["spent"], refunded=credits["refunded"], lost=credits["lost"]))
    margin = None if revenue is None or figures.report is None else revenue - figures.report.cost
    return {
        "currency": settings.CURRENCY,
        "sales": sold.in_period.quantize(Decimal("0.01")),
        "average_price": sold.average_price,
        "revenue": revenue,
        "margin": margin,
        "margin_percent": f"{100 * margin / revenue:.0f}" if margin is not None and revenue else None,
        "last_month": last_month,
        "is_last_month": (figures.since, figures.until) == (last_month.since, last_month.until),
    }
