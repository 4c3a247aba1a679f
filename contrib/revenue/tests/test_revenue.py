"""The page of revenue: a month's figures by customer, their order, their export, and who sees what."""

import csv
import html
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from accounts import customers, tokens
from accounts.models import ApiToken, CreditEntry, Customer
from contrib.revenue import views
from contrib.revenue.tests import URL
from core.periods import CalendarPeriod
from core.retention import KEPT_DAYS
from monitoring.models import SourceHour, TokenSourceDay
from tests.console.dashboard_rows import NOW, configure, timing_out
from tests.console_pages import figures, table, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_dashboard")]
LAST_MONTH = f"{URL}last-month/"
FEBRUARY = CalendarPeriod.of(NOW).previous.since
VENDOR: dict[str, Any] = {"slot": "source_a", "connector": "tests.connectors.RemoteKnows"}


def token_of(customer: Customer | None, sold: int, price: str, spent: int, refunded: int = 0) -> ApiToken:
    """With entries in the middle of February."""
    token = tokens.issue(name="till", initial_credits=0, actor="op", customer=customer).token
    at = FEBRUARY + timedelta(days=14)
    entries = [("top-up", sold, Decimal(price)), *[("search", -1, None)] * spent, *[("refund", 1, None)] * refunded]
    for kind, amount, paid in entries:
        CreditEntry.objects.create(token=token, kind=kind, amount=amount, price=paid, balance_after=0, created_at=at)
    return token


def calls(token: ApiToken | None, count: int) -> None:
    """Calls on the last day of February."""
    day = FEBRUARY + timedelta(days=27)
    if token is not None:
        TokenSourceDay.objects.create(token=token, day=day.date(), calls=count, **VENDOR)
    row, _ = SourceHour.objects.get_or_create(hour=day, outcome="found", **VENDOR)
    SourceHour.objects.filter(pk=row.pk).update(count=row.count + count)


@pytest.fixture(autouse=True)
def _nothing_cached() -> None:
    views.earned_cache.clear()


@pytest.fixture
def february(settings: Any) -> dict[str, Customer]:
    """The example of docs/revenue.md, two customers that earn less, and calls of the console."""
    settings.SOURCE_A_PRICE, settings.CREDIT_PRICE, settings.CURRENCY = {"*": Decimal("0.008")}, None, "EUR"
    configure(settings, "RemoteKnows")
    made = {name: customers.create(name=name) for name in ("Shop", "=Formula()", "Café")}
    calls(token_of(made["Shop"], 1000, "20", 500, 50), 300)
    calls(token_of(made["=Formula()"], 100, "4.50", 20), 200)
    token_of(made["Café"], 10, "5", 0)
    calls(token_of(None, 100, "1", 10), 0)
    calls(None, 25)
    return made


def names(client: Client, **query: str) -> list[str]:
    return [row[0] for row in table(client.get(URL, query).text, "Revenue by customer")]


def test_example_of_the_documentation(admin_client: Client, february: dict[str, Customer]) -> None:
    text = admin_client.get(URL).text
    assert "Earned in February 2026" in text
    assert f"/admin/accounts/customer/{february['Shop'].pk}/change/" in text
    shown = figures(text)
    assert (shown["Revenue"], shown["Sales"], shown["Credits spent"]) == ("10.00 EUR", "30.50 EUR", "480")
    assert (shown["Cost of sources"], shown["Margin"]) == ("4.200 EUR", "5.800 EUR 58.0 % of revenue")
    assert table(text, "Revenue by customer") == [
        ["Shop", "20.00", "450", "9.00", "2.400", "6.600", "73.3"],
        ["=Formula()", "4.50", "20", "0.90", "1.600", "-0.700", "-77.8"],
        ["Tokens without a customer", "1.00", "10", "0.10", "0.000", "0.100", "100.0"],
        ["Café", "5.00", "0", "0.00", "0.000", "0.000", "-"],
        ["Calls without a token", "0.00", "0", "0.00", "0.200", "-0.200", "-"],
    ]
    total = words(text.partition('<tbody class="figures-total">')[2].partition("</tbody>")[0])
    assert total == "Total 30.50 480 10.00 4.200 5.800 58.0"
    assert "0.200 EUR of the cost belongs to no customer" in html.unescape(text)
    heading = "Customer Sales (EUR) Credits spent Revenue (EUR) ↓ Cost of sources (EUR) Margin (EUR) Margin (%)"
    assert heading in words(text)


def test_costs_are_unknown_if_calls_have_no_token(admin_client: Client, february: dict[str, Customer]) -> None:
    TokenSourceDay.objects.all().delete()
    text = admin_client.get(URL).text
    assert "The cost and margin of each customer are unknown" in text
    shown = table(text, "Revenue by customer")
    assert shown[0] == ["Shop", "20.00", "450", "9.00", "-", "-", "-"]
    assert shown[-1][4:] == ["4.200", "-4.200", "-"]
    assert figures(text)["Cost of sources"] == "4.200 EUR"


def test_calls_without_a_token_alone_are_said_to_be_so(admin_client: Client, settings: Any) -> None:
    settings.SOURCE_A_PRICE = {"*": Decimal("0.008")}
    configure(settings, "RemoteKnows")
    calls(None, 25)
    text = admin_client.get(URL).text
    assert f"0.200 {settings.CURRENCY} of the cost belongs to no customer" in words(text)
    assert "of each customer are unknown" not in text


def test_every_column_sorts_with_unknown_figures_last(admin_client: Client, february: dict[str, Customer]) -> None:
    shop, formula, cafe, none, calls = (
        "Shop",
        "=Formula()",
        "Café",
        "Tokens without a customer",
        "Calls without a token",
    )
    assert names(admin_client, sort="name") == [formula, cafe, calls, shop, none]
    assert names(admin_client, sort="-sales") == [shop, cafe, formula, none, calls]
    assert names(admin_client, sort="spent") == [cafe, calls, none, formula, shop]
    assert names(admin_client, sort="-cost") == [shop, formula, calls, cafe, none]
    assert names(admin_client, sort="margin") == [formula, calls, cafe, none, shop]
    assert names(admin_client, sort="-margin_percent") == [none, shop, formula, cafe, calls]
    assert names(admin_client, sort="nonsense") == names(admin_client, sort="-revenue") == names(admin_client)


@pytest.mark.parametrize("month", ["", "2026-13", "2026-04", "1999-12", "x", "2026-02"])
def test_month_is_the_last_complete_one_unless_another_is_chosen(admin_client: Client, month: str) -> None:
    text = admin_client.get(URL, {"month": month}).text
    assert "Earned in February 2026</h2>" in text
    assert "Complete month" in text
    assert "No ledger entries and no calls in this month." in text
    assert ("?month=2026-01" in text, "?month=2026-03" in text) == (True, True)


def test_current_month_is_labelled_and_has_no_next(admin_client: Client) -> None:
    text = admin_client.get(URL, {"month": f"{NOW:%Y-%m}"}).text
    assert "Earned in March 2026 so far" in text
    assert "?month=2026-04" not in text
    assert "Current month" not in text


def test_months_are_named_and_link_the_current_one(admin_client: Client) -> None:
    text = words(admin_client.get(URL, {"month": "2025-12"}).text)
    assert "November 2025 December 2025 January 2026 Current month: March 2026" in text


def test_quarter_has_its_own_page_and_export(admin_client: Client, february: dict[str, Customer]) -> None:
    query = {"month": "2026-Q1"}
    text = admin_client.get(URL, query).text
    assert "Earned in Q1 2026 (January to March) so far" in text
    assert "?month=2025-Q4" in text
    assert "?month=2026-Q2" not in text
    assert figures(text)["Sales"] == figures(admin_client.get(URL, {"month": "2026-02"}).text)["Sales"]
    assert '<option value="2026-Q1" selected>' in text
    response = admin_client.post(URL, query_params=query)
    assert response["Content-Disposition"] == 'attachment; filename="revenue-2026-Q1.csv"'
    assert response.text.splitlines()[1].startswith("2026-Q1,EUR,")


def test_cost_is_for_those_who_may_view_sources(staff: Callable[..., Client], february: dict[str, Customer]) -> None:
    client = staff("view_creditentry")
    text = client.get(URL).text
    assert "Margin" not in text
    assert "Cost" not in text
    assert "Export" not in text
    assert "/admin/accounts/customer/" not in text.partition("<main")[2]
    assert table(text, "Revenue by customer")[0] == ["Shop", "20.00", "450", "9.00"]
    assert client.get(URL, {"sort": "-cost"}).status_code == 200
    assert client.post(URL).status_code == 403


@pytest.mark.parametrize("permission", ["view_customer", "view_source", "export_creditentry"])
def test_page_is_for_those_who_may_view_the_ledger(staff: Callable[..., Client], permission: str) -> None:
    client = staff(permission)
    assert (client.get(URL).status_code, client.post(URL).status_code) == (403, 403)
    assert client.get(LAST_MONTH).status_code == 403


def test_export_has_the_rows_without_formulas(admin_client: Client, february: dict[str, Customer]) -> None:
    response = admin_client.post(f"{URL}?month=2026-02&sort=name")
    assert response["Content-Disposition"] == 'attachment; filename="revenue-2026-02.csv"'
    titles, first, *others = csv.reader(response.content.decode("utf-8-sig").splitlines())
    assert titles[:5] == ["month", "currency", "customer_id", "name", "sales"]
    assert first[:4] == ["2026-02", "EUR", str(february["=Formula()"].pk), "'=Formula()"]
    assert first[4:] == ["4.50", "20", "0.90", "1.600", "-0.700", "-77.8"]
    assert len(others) == 4
    assert LogEntry.objects.get().change_message == "Exported revenue-2026-02.csv."


def test_unknown_prices_are_said_and_not_guessed(
    admin_client: Client, settings: Any, february: dict[str, Customer]
) -> None:
    settings.SOURCE_A_PRICE = {}
    token_of(customers.create(name="Trial"), 0, "0", 3)
    text = admin_client.get(URL).text
    assert "3 credits spent have no known price" in text
    assert "525 calls without a price" in text
    assert figures(text)["Revenue"] == "10.00 EUR incomplete"
    assert table(text, "Revenue by customer")[-1] == ["Trial", "0.00", "3", "-", "0.00", "-", "-"]


def test_page_says_that_the_query_timed_out(admin_client: Client) -> None:
    with timing_out("accounts_creditentry"):
        for response in (admin_client.get(URL), admin_client.post(URL)):
            assert "Query timed out" in response.text


@pytest.mark.parametrize(("days_later", "is_known"), [(0, True), (1, False)])
def test_cost_of_a_month_with_deleted_counts_is_unknown(
    admin_client: Client,
    february: dict[str, Customer],
    monkeypatch: pytest.MonkeyPatch,
    days_later: int,
    is_known: bool,
) -> None:
    now = FEBRUARY + timedelta(days=KEPT_DAYS + days_later)
    monkeypatch.setattr(timezone, "now", lambda: now)
    admin_client.force_login(User.objects.get(username="admin"))  # the session has expired
    for sort in ("-revenue", "-cost"):
        text = admin_client.get(URL, {"month": "2026-02", "sort": sort}).text
        shown, row = figures(text), next(row for row in table(text, "Revenue by customer") if row[0] == "Shop")
        assert (shown["Cost of sources"], shown["Margin"]) == (
            ("4.200 EUR", "5.800 EUR 58.0 % of revenue") if is_known else ("-", "-")
        )
        assert row == ["Shop", "20.00", "450", "9.00", *(["2.400", "6.600", "73.3"] if is_known else ["-"] * 3)]
        assert ("margin of this month are unknown: counts of calls are kept for 400 days" in text) is not is_known
    exported = admin_client.post(f"{URL}?month=2026-02").text.splitlines()[1]
    assert exported.endswith("9.00,2.400,6.600,73.3" if is_known else "9.00,,,")


def test_last_months_revenue_is_that_of_the_page(admin_client: Client, february: dict[str, Customer]) -> None:
    assert f'data-later="{LAST_MONTH}"' in admin_client.get("/admin/").text
    assert words(admin_client.get(LAST_MONTH).text) == figures(admin_client.get(URL).text)["Revenue"] == "10.00 EUR"
    token_of(customers.create(name="Trial"), 0, "0", 3)
    assert words(admin_client.get(LAST_MONTH).text) == "10.00 EUR"  # kept for ten minutes
    views.earned_cache.clear()
    assert words(admin_client.get(LAST_MONTH).text) == "10.00 EUR incomplete"
    views.earned_cache.clear()
    with timing_out("accounts_creditentry"):
        assert words(admin_client.get(LAST_MONTH).text) == "-"
