"""The dashboard's block about money, for those who may view the ledger."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.blocks import Figures
from contrib.revenue import dashboard
from tests.console.dashboard_rows import NOW, URL, add_credits, configure, count_calls, count_requests
from tests.console_pages import figures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
ESTIMATES = ("Estimated revenue", "Estimated margin")


def money(rf: Any, **credits: int) -> dict[str, Any]:
    """Of the last day, for a user who may not view sources."""
    known = {"spent": 0, "refunded": 0, "lost": 0, **credits}
    values = dashboard.money(rf.get(URL), Figures(NOW, NOW - timedelta(days=1), NOW, known, None))
    assert values is not None
    return values


def test_margin_is_revenue_less_the_cost_of_sources(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE, settings.CREDIT_PRICE, settings.CURRENCY = {"*": Decimal("0.5")}, None, "EUR"
    configure(settings, "RemoteKnows")
    text = admin_client.get(URL, {"period": "7d"}).text
    assert [figures(text)[name] for name in ("Sales", *ESTIMATES)] == ["0.00 EUR", "-", "-"]
    assert "Set <code>CREDIT_PRICE</code>" in text
    for days_ago, price in ((0, Decimal(60)), (8, Decimal(40))):  # 2,000 credits for 100
        add_credits("top-up", 1_000, days_ago=days_ago, price=price)
        add_credits("top-up", 500, days_ago=days_ago)
    add_credits("refund", 3)
    count_requests("found_one", 103)
    count_calls("found", 3)
    text = admin_client.get(URL, {"period": "7d"}).text
    shown = figures(text)
    assert (shown["Sales"], shown["Estimated revenue"]) == ("60.00 EUR", "5.00 EUR at 0.05 per credit")
    assert (shown["Cost of sources"], shown["Estimated margin"]) == (
        "1.50 EUR",
        "3.50 EUR 70 % of estimated revenue",
    )
    assert "Set <code>CREDIT_PRICE</code>" not in text


def test_last_month_is_without_this_month(admin_client: Client) -> None:
    for days_ago, credits, searches in ((8, 1, 1), (9, 20, 2), (36, 300, 4), (37, 4_000, 8)):  # of 9 March
        add_credits("top-up", credits, days_ago=days_ago, price=Decimal(credits))
        count_requests("found_one", searches, hours_ago=24 * days_ago)
    assert figures(admin_client.get(URL, {"period": "last-month"}).text)["Sales"] == "320.00 USD"


@pytest.mark.parametrize(("period", "seen"), [("last-month", False), ("month", True), ("30d", True)])
def test_last_month_has_its_revenue_and_no_estimate(admin_client: Client, period: str, seen: bool) -> None:
    text = admin_client.get(URL, {"period": period}).text
    assert "<dt>Revenue in February 2026</dt>" in text
    assert [name in figures(text) for name in ESTIMATES] == [seen, seen]


@pytest.mark.parametrize(
    ("permissions", "seen"),
    [
        (("view_apitoken", "view_source"), set()),
        (("view_creditentry",), {"Estimated revenue"}),
        (("view_creditentry", "view_source"), set(ESTIMATES)),
    ],
)
def test_margin_is_for_those_who_may_view_ledger_and_sources(
    staff: Callable[..., Client], permissions: tuple[str, ...], seen: set[str]
) -> None:
    text = staff(*permissions).get(URL).text
    assert {name for name in ESTIMATES if f"<dt>{name}</dt>" in text} == seen
    assert ("Sales and costs" in text) == ("margin" in text) == (seen == set(ESTIMATES))


def test_refunds_of_lost_answers_do_not_reduce_revenue(rf: Any, settings: Any) -> None:
    settings.CREDIT_PRICE = Decimal("0.5")
    assert money(rf, spent=4, refunded=5, lost=4)["revenue"] == Decimal("1.50")


def test_one_statement_reads_no_searches_of_the_ledger(rf: Any) -> None:
    add_credits("top-up", 1, price=Decimal(1))
    with CaptureQueriesContext(connection) as captured:
        money(rf)
    assert len(captured) == 1
    assert "NOT (" in captured[0]["sql"]
    assert "'search'" in captured[0]["sql"]


def test_dashboard_links_to_the_last_month(admin_client: Client) -> None:
    assert '/admin/revenue/?month=2026-02">Earned in February 2026, by customer</a>' in admin_client.get(URL).text
