"""What customers paid is recorded with the credits; sales, revenue and averages are exact sums of it."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, customers, sales, tokens, unknown_charges
from accounts.debit import Debit
from accounts.models import ApiToken, CreditEntry, SearchHour, TokenDay, UnknownCharge
from core import loop
from tests import awaited
from tests.accounts.admin.pages import LEDGER, NUMBER, entry_page, issue, issue_token, page, select, submit
from tests.console_pages import figures

pytestmark = pytest.mark.django_db


def top_up(token: ApiToken, amount: int, price: str | None = None, **options: Any) -> CreditEntry:
    paid = None if price is None else Decimal(price)
    return credits.top_up(token=token, amount=amount, price=paid, actor="op", reason="paid", **options)[0]


def month() -> datetime:
    return timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=29)


@pytest.mark.parametrize(
    ("setting", "given", "stored"),
    [
        (None, None, None),
        (None, "12.5", "12.5"),
        ("0.02", None, "2"),
        ("0.02", "1.5", "1.5"),
        ("0.02", "0", "0"),
        ("0.0000123", None, "0.0012"),
    ],
)
def test_price_is_what_is_entered_or_the_settings(
    settings: Any, token: ApiToken, setting: str | None, given: str | None, stored: str | None
) -> None:
    settings.CREDIT_PRICE = None if setting is None else Decimal(setting)
    expected = None if stored is None else Decimal(stored)
    assert top_up(token, 100, given).price == expected
    paid = None if given is None else Decimal(given)
    issued = tokens.issue(name="x", initial_credits=100, price=paid, actor="op").token
    assert issued.entries.get().price == expected


@pytest.mark.parametrize("price", ["-1", "1000000000", "NaN", "Infinity", "0.00004"])
def test_invalid_price_is_refused(token: ApiToken, price: str) -> None:
    with pytest.raises(credits.ChangeRefused, match=r"[Pp]rice"):
        top_up(token, 10, price)
    with pytest.raises(credits.ChangeRefused, match=r"[Pp]rice"):
        credits.adjust(token=token, amount=-1, price=Decimal(1), actor="op", reason="x")
    assert list(CreditEntry.objects.exclude(kind="issue")) == []


def test_repeated_reference_with_another_price_is_refused(token: ApiToken) -> None:
    first = top_up(token, 10, "1", reference="2026-17")
    assert top_up(token, 10, "1.0000", reference="2026-17") == top_up(token, 10, reference="2026-17") == first
    with pytest.raises(credits.ChangeRefused, match="was used for another entry"):
        top_up(token, 10, "2", reference="2026-17")


def test_average_price_weighs_sales_by_their_credits(settings: Any, token: ApiToken) -> None:
    settings.CREDIT_PRICE = None
    assert sales.sales(month()) == sales.Sales(Decimal(0), None, 0, None)
    top_up(token, 500)  # without a price: not part of the average
    assert sales.sales(month()).average_price is None
    settings.CREDIT_PRICE = Decimal("0.05")
    assert sales.sales(month()).average_price == Decimal("0.05")
    top_up(token, 100, "3")
    top_up(token, 200, "3")
    credits.adjust(token=token, amount=-100, price=Decimal("-1.50"), actor="op", reason="wrong invoice")
    found = sales.sales(month())
    assert found == sales.Sales(Decimal("4.5"), Decimal("4.5"), 0, Decimal("0.0225"))
    assert found.revenue(1000) == Decimal("22.50")
    later = sales.sales(timezone.now() + timedelta(hours=1))
    assert (later.in_period, later.total) == (Decimal(0), Decimal("4.5"))
    top_up(token, 300, "0")
    assert sales.sales(month()).average_price == Decimal("0.0090")


def test_sales_of_a_customer_are_those_of_its_tokens(token: ApiToken) -> None:
    other = issue_token("of somebody else")
    top_up(token, 100, "3")
    top_up(other, 100, "7")
    assert sales.sales(month(), [token.pk]) == sales.Sales(Decimal(3), Decimal(3), 0, Decimal("0.03"))
    assert sales.sales(month(), []).total is None


def test_refunds_of_lost_answers_do_not_reduce_revenue(admin_client: Client, settings: Any, token: ApiToken) -> None:
    settings.CREDIT_PRICE, settings.CURRENCY = Decimal("0.5"), "EUR"
    customer = customers.create(name="Example Ltd")
    ApiToken.objects.update(customer=customer)
    now = timezone.now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    TokenDay.objects.create(token=token, day=now.date(), outcome="found_one", count=4)
    SearchHour.objects.create(hour=hour, outcome="found_one", count=4)
    # Lost answers, also of another customer, and one from before the period that was settled in it.
    for owner, days_ago in ((token, 0), (token, 1), (token, 40), (issue_token("of somebody else"), 0)):
        charged_at = now - timedelta(days=days_ago)
        loop.run(Debit(owner.pk, owner.charge_epoch, f"lost {days_ago}", b"", charged_at, {}, None).execute())
        UnknownCharge.objects.create(token=owner, charged_at=charged_at, request_id=f"lost {days_ago}")
    assert unknown_charges.ChargeSettler().settle()
    awaited.charge(token=token, request_id="answered", number=NUMBER, answer={})
    credits.refund(entry=token.entries.get(request_id="answered"), actor="op", reason="wrong name")
    context = admin_client.get(f"/admin/accounts/customer/{customer.pk}/change/").context
    assert (context["sold"].refunded, context["revenue"]) == (4, Decimal("1.50"))
    assert re.search(r"field-revenue[^>]*>\s*1\.50", admin_client.get("/admin/accounts/customer/").text)
    shown = figures(admin_client.get("/admin/", {"period": "30d"}).text)
    assert (shown["Spent"], shown["Refunded"].split()[:2]) == ("4", ["5", "4"])


# --- Commands and console -----------------------------------------------------------------------------------------


def test_commands_take_a_price(token: ApiToken) -> None:
    def run(*words: object) -> None:
        call_command(*map(str, words), stdout=StringIO(), stderr=StringIO())

    run("top_up", token.pk, 10, "--note", "x", "--price", "1.25")
    run("create_token", "new", "--credits", 10, "--price", 2)
    assert list(CreditEntry.objects.order_by("-pk").values_list("price", flat=True)[:2]) == [2, Decimal("1.25")]
    with pytest.raises(CommandError, match="invalid decimal_number value"):
        run("top_up", token.pk, 10, "--note", "x", "--price", "much")


def test_forms_take_a_price_and_say_what_empty_means(admin_client: Client, settings: Any, token: ApiToken) -> None:
    settings.CREDIT_PRICE = None
    assert "in USD. Leave empty if it is unknown; 0" in admin_client.get(page(token, "top-up")).text
    settings.CREDIT_PRICE = Decimal("0.02")
    assert "Leave empty for 0.02 per credit; 0" in admin_client.get(page(token, "top-up")).text
    submit(admin_client, page(token, "top-up"), amount=10, reason="x", price="1.25")
    submit(admin_client, page(token, "top-up"), amount=10, reason="y")
    submit(admin_client, page(token, "adjust"), amount=-5, reason="x", price="-0.50")
    issue(admin_client, initial_credits=10, price="0")
    select(admin_client, token)
    prices = CreditEntry.objects.exclude(token=token, kind="issue").order_by("pk").values_list("price", flat=True)
    assert list(prices) == [Decimal("1.25"), Decimal("0.2"), Decimal("-0.5"), 0]
    wrong = submit(admin_client, page(token, "top-up"), amount=1, reason="x", price="much").text
    assert "Enter a number, such as 1250 or 12.50." in wrong


def test_entry_and_export_show_the_price(admin_client: Client, settings: Any, token: ApiToken) -> None:
    settings.CURRENCY = "EUR"
    assert "EUR" not in admin_client.get(entry_page(token.entries.get(), "change")).text
    assert "1,250.50 EUR" in admin_client.get(entry_page(top_up(token, 10, "1250.50"), "change")).text
    response: Any = admin_client.post(f"{LEDGER}export/")
    lines = b"".join(response.streaming_content).decode().splitlines()
    assert [line.split(",")[-2] for line in lines] == ["price", "1250.5000", ""]


@pytest.mark.parametrize(("price", "shown"), [("2000", "20"), ("0.01", "0.0001"), ("33.3333", "0.333333"), ("0", "0")])
def test_average_price_is_shown_without_trailing_zeros(admin_client: Client, price: str, shown: str) -> None:
    customer = customers.create(name="Example Ltd")
    tokens.issue(name="x", initial_credits=100, price=Decimal(price), actor="op", customer=customer)
    assert f"at {shown} per credit" in admin_client.get(f"/admin/accounts/customer/{customer.pk}/change/").text


# --- Sums of credits ---------------------------------------------------------------------------------------------


NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)


def test_ledger_sums_are_read_by_an_index(token: ApiToken) -> None:
    second = timedelta(seconds=1)
    for kind, amount, at in (
        ("top-up", 5, NOON),
        ("top-up", 7, NOON + timedelta(days=1)),
        ("top-up", 11, NOON - second),
        ("refund", 1, NOON + second),
        ("search", -1, NOON + second),
    ):
        CreditEntry.objects.create(token=token, kind=kind, amount=amount, balance_after=1, created_at=at)
    with CaptureQueriesContext(connection) as captured:
        assert sales.ledger_sums(NOON) == {"issue": 30, "top-up": 12, "refund": 1}
        sales.sales(NOON)
    for query in captured:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{query['sql']}")
            assert "_booked" in str(cursor.fetchall())


def test_outstanding_separates_unusable_tokens() -> None:
    issue_token("pbx", 100)
    revoked, expired = issue_token("lost", 20), issue_token("old", 3)
    tokens.revoke(token=revoked, reason="test")
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=NOON)
    assert sales.outstanding(NOON) == (100, 23)
