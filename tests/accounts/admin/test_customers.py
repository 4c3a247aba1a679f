"""The console's pages of customers: list, page, the form of their tokens, and their ledger."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, customers, tokens
from accounts.admin.customers import CustomerAdmin
from accounts.models import ApiToken, Customer, TokenDay
from tests import awaited
from tests.accounts.admin.pages import (
    CUSTOMERS,
    LEDGER,
    LIST,
    customer_form,
    edit_page_of,
    issue,
    issue_token,
    listed_entries,
    page,
    page_of,
    query_count,
    submit,
    token_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def customer() -> Customer:
    return customers.create(name="Example Ltd", contacts=["owner@example.org"])


def listed(client: Client, **query: Any) -> list[str]:
    return [row.name for row in client.get(CUSTOMERS, query).context["cl"].result_list]


# --- The list -----------------------------------------------------------------------------------------------------


def test_list_finds_customers_by_what_is_known_of_them(admin_client: Client, customer: Customer) -> None:
    customers.create(name="Other Ltd", contacts=["other@example.org"])
    api_key = tokens.issue(name="till", actor="test", customer=customer).api_key
    for text in ("example ltd", "OWNER@", "till", f"#{customer.pk}", str(customer.pk), api_key[-4:]):
        assert listed(admin_client, q=text) == ["Example Ltd"], text
    assert listed(admin_client) == ["Other Ltd", "Example Ltd"]
    assert listed(admin_client, q="nobody") == []
    assert admin_client.get(CUSTOMERS, {"q": api_key})["Location"] == CUSTOMERS


def test_list_shows_tokens_balance_searches_and_contacts(admin_client: Client, customer: Customer) -> None:
    token, revoked = token_of(customer, "a", 1_000), token_of(customer, "b", 7)
    token_of(customer, "test", 0, is_test=True)
    tokens.revoke(token=revoked)
    TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_both", count=1_234)
    TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="invalid", count=9)
    text = admin_client.get(CUSTOMERS).text
    for name, value in (("token_count", "3"), ("balance", "1,000"), ("searches", "1,234"), ("contact", "owner@")):
        assert re.search(rf"field-{name}[^>]*>(<[^>]*>|\s)*{value}", text), name


def test_list_shows_money_last_charge_and_end_of_credits(admin_client: Client, customer: Customer) -> None:
    now = timezone.now()
    soon, later = token_of(customer, "soon", 0), token_of(customer, "later", 1_000)
    credits.top_up(token=soon, amount=10, price=Decimal("1.5"), reason="x", actor="test")
    credits.top_up(token=later, amount=10, price=Decimal(20), reason="x", actor="test")
    for token in (soon, later):
        TokenDay.objects.create(token=token, day=now.date(), outcome="found_both", count=10)
    ApiToken.objects.filter(pk=soon.pk).update(last_charged_at=now - timedelta(days=1))
    ApiToken.objects.filter(pk=later.pk).update(last_charged_at=now - timedelta(days=2))
    text = admin_client.get(CUSTOMERS).text
    expected = {
        "revenue": "21.50",
        "last_use": f"{now - timedelta(days=1):%Y-%m-%d}",
        "runs_out": f'first token: <span class="console-date">{now + timedelta(days=1):%Y-%m-%d}',
    }
    for name, value in expected.items():
        assert re.search(rf"field-{name}[^>]*>(<[^>]*>|\s)*{value}", text), name
    assert "Estimated revenue (USD, 30 days)" in text
    assert "<dt>Estimated revenue</dt>" in admin_client.get(page_of(customer)).text


@pytest.mark.parametrize("max_named", [0, 500])
def test_every_figure_sorts_the_list_over_all_pages(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, max_named: int
) -> None:
    monkeypatch.setattr("accounts.admin.customers.MAX_NAMED", max_named)
    for n, name in enumerate("cab"):
        customer = customers.create(name=name)
        token = token_of(customer, name, 10 * n + 5)
        credits.top_up(token=token, amount=1, price=Decimal(n), reason="x", actor="test")
        TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=n + 1)
        ApiToken.objects.filter(pk=token.pk).update(last_charged_at=timezone.now() - timedelta(hours=3 - n))
        for more in range(n):
            token_of(customer, f"{name}{more}", 1)
    columns = admin_client.get(CUSTOMERS).context["cl"].list_display
    customers.create(name="unused")
    for name in ("token_count", "balance", "searches", "revenue", "last_use", "runs_out"):
        number = columns.index(name)
        first = ["unused"] if name in ("token_count", "balance", "searches") else []
        last = [] if first else ["unused"]  # has no such figure
        assert listed(admin_client, o=number) == [*first, "c", "a", "b", *last], name
        assert listed(admin_client, o=-number) == ["b", "a", "c", "unused"], name
    assert listed(admin_client, o=columns.index("name")) == ["a", "b", "c", "unused"]
    assert listed(admin_client, o=99) == ["unused", "b", "a", "c"]  # no such column: the newest first
    monkeypatch.setattr(CustomerAdmin, "list_per_page", 2)
    query = {"o": -columns.index("balance")}
    assert [listed(admin_client, p=page, **query) for page in (1, 2)] == [["b", "a"], ["c", "unused"]]
    assert listed(admin_client, all="", **query) == ["b", "a", "c", "unused"]
    customers.create(name="also unused")
    for order in (1, -1):
        by_both = f"{columns.index('searches')}.{order * columns.index('name')}"
        assert listed(admin_client, o=by_both, p=1) == ["also unused", "unused"][::order]


def test_first_click_on_runs_out_lists_the_earliest_first(admin_client: Client) -> None:
    for name, balance in (("later", 90), ("never", 5), ("empty", 0), ("sooner", 10)):
        token = token_of(customers.create(name=name), name, balance)
        TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=int(name != "never"))
    (order,) = re.findall(r'href="\?o=(-?[0-9])"[^>]*>\s*Runs out', admin_client.get(CUSTOMERS).text)
    assert listed(admin_client, o=order) == ["empty", "sooner", "later", "never"]


def test_list_and_page_say_how_many_tokens_are_out_of_credits(admin_client: Client, customer: Customer) -> None:
    for name, balance in (("a", 0), ("b", 5), ("c", 0)):
        token_of(customer, name, balance)
        text = admin_client.get(CUSTOMERS).text + admin_client.get(page_of(customer)).text
        expected = {
            "a": ">out of credits<",
            "b": "1 of 2 tokens is out of credits",
            "c": "2 of 3 tokens are out of",
        }
        assert text.count(expected[name]) >= 2, name


def test_sorted_list_reads_no_figure_twice(admin_client: Client, customer: Customer) -> None:
    token_of(customer, "till")
    number = admin_client.get(CUSTOMERS).context["cl"].list_display.index("revenue")
    with CaptureQueriesContext(connection) as captured:
        assert listed(admin_client, o=-number) == ["Example Ltd"]
    assert sum("accounts_creditentry" in query["sql"] for query in captured) == 1


def test_filters_find_customers_by_use(admin_client: Client) -> None:
    used, unused, running = (token_of(customers.create(name=name), name) for name in ("used", "unused", "running"))
    customers.create(name="empty")
    now = timezone.now()
    token_of(customers.create(name="new"), "new")
    token_of(customers.create(name="tester"), "tester", 0, is_test=True)
    ApiToken.objects.exclude(name="new").update(created_at=now - timedelta(days=40))
    Customer.objects.exclude(name="new").update(created_at=now - timedelta(days=40))
    ApiToken.objects.filter(pk__in=[used.pk, running.pk]).update(last_charged_at=now - timedelta(days=13))
    ApiToken.objects.filter(pk=unused.pk).update(last_charged_at=now - timedelta(days=15))
    TokenDay.objects.create(token=running, day=now.date(), outcome="found_one", count=30)
    assert sorted(listed(admin_client, use="unused")) == ["empty", "tester", "unused"]
    assert listed(admin_client, use="no_token") == ["empty"]
    assert listed(admin_client, use="runs_out") == ["running"]
    assert listed(admin_client, use="expiring") == []
    for name, days in (("new", 6), ("used", 8), ("tester", 6)):
        ApiToken.objects.filter(name=name).update(expires_at=now + timedelta(days=days))
    assert listed(admin_client, use="expiring") == ["new"]
    assert listed(admin_client, use="runs_out") == ["new", "running"]
    assert listed(admin_client, use="empty") == []


def test_running_out_lists_the_soonest_first_without_empty(admin_client: Client) -> None:
    for name, balance in (("sooner", 10), ("later", 30), ("empty", 0), ("partly empty", 10)):
        token = token_of(customers.create(name=name), name, balance)
        ApiToken.objects.filter(pk=token.pk).update(created_at=timezone.now() - timedelta(days=40))
        TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=30)
    token_of(Customer.objects.get(name="partly empty"), "second", 0)
    assert listed(admin_client, use="runs_out") == ["partly empty", "sooner", "later"]
    page = admin_client.get(CUSTOMERS, {"use": "runs_out"}).text
    assert "1 of 2 tokens is out of credits; next: <span" in page
    assert listed(admin_client, use="empty") == ["partly empty", "empty"]
    assert listed(admin_client, use="runs_out", o="1") == ["later", "partly empty", "sooner"]


def test_revenue_is_for_those_who_may_see_the_ledger(admin_client: Client, customer: Customer) -> None:
    user = User.objects.create_user("clerk", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_customer"))
    client = Client()
    client.force_login(user)
    assert "field-revenue" not in client.get(CUSTOMERS).text
    assert "field-revenue" in admin_client.get(CUSTOMERS).text


def test_list_and_page_have_a_constant_number_of_queries(admin_client: Client, customer: Customer) -> None:
    columns = admin_client.get(CUSTOMERS).context["cl"].list_display
    urls = [CUSTOMERS, page_of(customer), *(f"{CUSTOMERS}?o={n}" for n in range(1, len(columns)))]

    def queries() -> list[int]:
        return [query_count(admin_client, url) for url in urls]

    token_of(customer, "first")
    few = queries()
    for n in range(9):
        token_of(customer, f"more {n}")
        other = customers.create(name=f"other {n}", contacts=[f"{n}@example.org"])
        token_of(other, "x")
    assert queries() == few


# --- The page -----------------------------------------------------------------------------------------------------


def test_page_sums_up_the_usable_tokens(admin_client: Client, customer: Customer) -> None:
    spent, other, revoked = token_of(customer, "spent", 70), token_of(customer, "other", 5), token_of(customer, "gone")
    issue_token("of nobody", 900)
    ApiToken.objects.update(created_at=timezone.now() - timedelta(days=90))
    tokens.revoke(token=revoked)
    for token, count in ((spent, 70), (other, 0), (revoked, 30)):
        TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=count)
    response = admin_client.get(page_of(customer))
    context = response.context
    assert context["rows"][1]["runs_out"].endswith("(credits)")
    assert (context["balance"], context["usable"], context["token_count"]) == (75, 2, 3)
    assert context["searches_30d"] == 100
    assert [row["token"].name for row in context["rows"]] == ["other", "spent", "gone"]
    end = f'<span class="console-date">{context["rows"][1]["runs_out"].replace(" (", "</span> (")}'
    assert f"<dd>first token: {end}<small>" in response.text
    assert dict(context["chart"]["legend"])["one source matched"] == 100
    assert f"{LEDGER}?customer={customer.pk}&amp;since=2000-01-01" in response.text
    assert {entry.token.name for entry in context["entries"]} == {"spent", "other", "gone"}


def test_customer_with_tokens_says_why_it_cannot_be_deleted(admin_client: Client, customer: Customer) -> None:
    token = token_of(customer, "till", 5)
    text = admin_client.get(f"{CUSTOMERS}{customer.pk}/delete/").text
    assert "A customer that owns tokens cannot be deleted." in text
    assert f"till (#{token.pk})" in text
    assert "have permission" not in text


def test_end_of_credits_names_its_rate_only_with_a_date(admin_client: Client, customer: Customer) -> None:
    token = token_of(customer, "till", 0)
    for path in (page(token, "change"), page_of(customer)):
        assert "out of credits<small></small>" in admin_client.get(path).text
    credits.top_up(token=token, amount=10, reason="x", actor="test")
    for path in (page(token, "change"), page_of(customer)):
        assert "(expires)<small></small>" in admin_client.get(path).text
    TokenDay.objects.create(token=token, day=timezone.now().date(), outcome="found_one", count=10)
    for path in (page(token, "change"), page_of(customer)):
        assert "(credits)<small>at the rate of the last 7 days" in admin_client.get(path).text


def test_contacts_are_added_and_deleted_without_a_trace(admin_client: Client, customer: Customer) -> None:
    kept = customer.contacts.get()
    added = customer_form(
        {"id": kept.pk, "customer": customer.pk, "email": "owner@example.org", "low_balance": "on"},
        {"customer": customer.pk, "email": "new@example.org"},
        kept=1,
    )
    assert admin_client.post(edit_page_of(customer), added).status_code == 302
    assert customer.contacts.filter(email="new@example.org", low_balance=False).exists()
    removed = customer_form(
        {"id": kept.pk, "customer": customer.pk, "email": "owner@example.org", "DELETE": "on"}, kept=1
    )
    assert admin_client.post(edit_page_of(customer), removed).status_code == 302
    assert customer.contacts.count() == 1
    assert "@" not in "".join(f"{row.object_repr} {row.get_change_message()}" for row in LogEntry.objects.all())


# --- The customer of a token ---------------------------------------------------------------------------------------


def test_customers_page_links_a_token_of_the_customer(admin_client: Client, customer: Customer) -> None:
    page = admin_client.get(page_of(customer))
    url = page.context["issue_url"]
    assert f'href="{url}"' in page.text
    assert f'value="{customer}"' in admin_client.get(url).text
    issue(admin_client, customer=str(customer))
    assert ApiToken.objects.get().customer == customer


def test_customer_of_a_token_is_changed_on_its_page(admin_client: Client, customer: Customer, token: ApiToken) -> None:
    fields = {"name": "pbx", "note": "", "contact": "", "low_balance_at": ""}
    for text, owner in (("example ltd", customer), (str(customer), customer), ("", None)):
        submit(admin_client, page(token, "edit"), **fields, customer=text)
        token.refresh_from_db()
        assert token.customer == owner
        assert ("Example Ltd" in admin_client.get(LIST).text) == (owner is not None)
    response = submit(admin_client, page(token, "edit"), **fields, customer="nobody")
    assert "There is no customer with this name. Choose one from the list that opens as you type" in response.text


def test_full_customer_gets_no_further_token(
    admin_client: Client, customer: Customer, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.customers.MAX_TOKENS", 0)
    assert "has at most 0 tokens" in issue(admin_client, customer=str(customer)).text
    for text in (str(customer), f'Create "{customer.name}"'):
        assert "has at most 0 tokens" in submit(admin_client, page(token, "edit"), name="x", customer=text).text


# --- The ledger of a customer --------------------------------------------------------------------------------------


def test_ledger_of_a_customer_has_all_its_tokens(admin_client: Client, customer: Customer) -> None:
    first, second = token_of(customer, "first", 1), token_of(customer, "second", 2)
    issue_token("of nobody")
    credits.top_up(token=first, amount=3, actor="op", reason="paid", reference="2026-17")
    awaited.charge(token=second, request_id="r1", number="493023125042", answer={})
    assert listed_entries(admin_client, customer=customer.pk) == [
        "second search -1",
        "first top-up 3",
        "second issue 2",
        "first issue 1",
    ]
    assert listed_entries(admin_client, customer=customer.pk, kind="booked") == [
        "first top-up 3",
        "second issue 2",
        "first issue 1",
    ]
    assert listed_entries(admin_client, customer=customer.pk, reference="2026-17") == ["first top-up 3"]
    assert listed_entries(admin_client, customer=customer.pk, request_id="r1") == ["second search -1"]
    assert listed_entries(admin_client, customer=customer.pk, token="second") == ["second search -1", "second issue 2"]
    assert listed_entries(admin_client, customer=customer.pk, token="of nobody") == []
    assert listed_entries(admin_client, customer=customer.pk, until="2020-01-01") == []
    assert "There is no customer with this id." in admin_client.get(LEDGER, {"customer": 999}).text
