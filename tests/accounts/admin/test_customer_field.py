"""The field for the customer of a token: a new customer is created in the same submission."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import customers
from accounts.models import ApiToken, Customer
from tests.accounts.admin.pages import (
    ADD,
    LEDGER,
    hidden_fields,
    history,
    issue,
    page,
    post_all_concurrently,
    submit,
)

pytestmark = pytest.mark.django_db

NEW = 'Create "Harbour Ltd"'
UNKNOWN = "There is no customer with this name. Choose one from the list that opens as you type."


def test_issuing_creates_the_customer_it_names(admin_client: Client) -> None:
    assert "Copy this token now." in issue(admin_client, customer=NEW).text
    assert ApiToken.objects.get().customer == Customer.objects.get(name="Harbour Ltd")
    assert ("admin", "Created for an API token.") in history()


def test_editing_a_token_creates_the_customer_it_names(admin_client: Client, token: ApiToken) -> None:
    assert submit(admin_client, page(token, "edit"), name=token.name, customer=NEW).status_code == 302
    token.refresh_from_db()
    assert token.customer == Customer.objects.get(name="Harbour Ltd")


def test_form_with_an_error_creates_no_customer(admin_client: Client, token: ApiToken) -> None:
    for answer in (
        issue(admin_client, customer=NEW, reason=""),
        issue(admin_client, customer=NEW, days=0),
        submit(admin_client, page(token, "edit"), name="", customer=NEW),
    ):
        assert answer.status_code == 200
        assert 'value="Harbour Ltd"' in answer.text
        assert re.search(r'type="hidden" name="customer"[^>]* value="Create &quot;Harbour Ltd&quot;"', answer.text)
        assert "New customer</p>" in answer.text
    assert not Customer.objects.exists()


def test_unknown_name_alone_creates_nothing_and_offers_it(admin_client: Client) -> None:
    text = issue(admin_client, customer="Harbour Ltd <b>").text
    assert UNKNOWN in text
    box = re.search(r'<input type="checkbox" name="customer"[^>]*>', text)
    assert box
    assert 'value="Create &quot;Harbour Ltd &lt;b&gt;&quot;"' in box[0]
    assert " checked>" not in box[0]
    assert "A customer needs a name of 1 to 100" in issue(admin_client, customer=f'Create "{"x" * 101}"').text
    assert not Customer.objects.exists()


def test_name_that_was_changed_since_is_not_created(admin_client: Client) -> None:
    first = customers.create(name="Pier Ltd")
    issue(admin_client, customer=["Pier Ltd", NEW])
    assert ApiToken.objects.get().customer == first
    assert UNKNOWN in issue(admin_client, customer=["Harbor Ltd", NEW]).text
    issue(admin_client, customer=["Harbour Ltd", NEW])
    assert {each.name for each in Customer.objects.all()} == {"Pier Ltd", "Harbour Ltd"}


def test_existing_name_is_not_created_again(admin_client: Client) -> None:
    first = customers.create(name="Harbour Ltd")
    issue(admin_client, customer='Create "harbour  LTD"')
    assert ApiToken.objects.get().customer == first
    assert Customer.objects.get() == first
    customers.create(name="Harbour Ltd")
    assert "Several customers have this name." in issue(admin_client, customer=NEW).text


@pytest.mark.parametrize("may_add", [True, False])
def test_only_those_who_may_add_customers_create_one(staff: Any, token: ApiToken, may_add: bool) -> None:
    permissions = ("view_apitoken", "add_apitoken", "change_apitoken", "view_customer")
    client = staff(*permissions, *(["add_customer"] if may_add else []))
    for url in (ADD, page(token, "edit")):
        assert ("data-create" in client.get(url).text) is may_add
    answers = [issue(client, customer=NEW), submit(client, page(token, "edit"), name="x", customer='Create "B"')]
    assert [UNKNOWN in answer.text for answer in answers] == [not may_add] * 2
    assert Customer.objects.count() == (2 if may_add else 0)


def test_filter_of_the_ledger_creates_nothing(admin_client: Client) -> None:
    text = admin_client.get(LEDGER, {"customer": NEW}).text
    assert UNKNOWN in text
    assert "data-create" not in text
    assert 'type="checkbox" name="customer"' not in text
    assert not Customer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_customer_created_by_two_operators_at_once_is_one() -> None:
    boss, client = User.objects.create_superuser("boss", password="x"), Client()
    client.force_login(boss)
    fields = {"name": "new", "initial_credits": 0, "days": 30, "reason": "order", "customer": NEW}
    for _ in range(3):
        Customer.objects.filter(tokens=None).delete()
        pages = [(ADD, {**hidden_fields(client.get(ADD)), **fields, "name": f"new {n}"}) for n in range(3)]
        answers = post_all_concurrently(boss, pages)
        assert all("Copy this token now." in answer.text for answer in answers)
        customer = Customer.objects.get(name="Harbour Ltd")
        assert customer.tokens.count() == 3
        customer.tokens.update(customer=None)
