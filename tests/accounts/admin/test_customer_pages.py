"""A customer's page in the console, its form, and its top-up."""

import re
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from accounts import customers, tokens
from accounts.models import ApiToken, Customer
from tests.accounts.admin.pages import (
    CUSTOMERS,
    customer_form,
    edit_page_of,
    hidden_fields,
    issue_token,
    page_of,
    post_all_concurrently,
    submit,
    token_of,
)
from tests.console.role_table import logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def customer() -> Customer:
    return customers.create(name="Example Ltd", contacts=["owner@example.org"])


def test_page_shows_contacts_and_note_and_has_no_form(admin_client: Client, customer: Customer) -> None:
    Customer.objects.update(note="Pays late.")
    text = admin_client.get(page_of(customer)).text
    for shown in ("owner@example.org (low-balance notices)", "Pays late.", f'href="{edit_page_of(customer)}"'):
        assert shown in text, shown
    assert 'name="_save"' not in text
    assert admin_client.post(page_of(customer), customer_form()).status_code == 405
    text = admin_client.get(edit_page_of(customer)).text
    assert 'name="_save"' in text
    assert "Requests in 30 days" not in text
    assert "Edit customer" in text
    assert "Add a contact" in text
    for url, back in ((edit_page_of(customer), page_of(customer)), (f"{CUSTOMERS}add/", CUSTOMERS)):
        assert re.search(f'<a href="{back}"[^>]*>\\s*Cancel', admin_client.get(url).text), url


def test_saving_returns_to_the_page(admin_client: Client, customer: Customer) -> None:
    response = admin_client.post(edit_page_of(customer), customer_form(name="Renamed Ltd"))
    assert response["Location"] == page_of(customer)
    response = admin_client.post(edit_page_of(customer), customer_form(name=""))
    assert "This field is required." in response.text
    assert Customer.objects.get().name == "Renamed Ltd"


# --- Top up --------------------------------------------------------------------------------------------------------

PAID = {"amount": 25, "price": "2.50", "reason": "invoice", "own_reference": "INV-17"}


def top_up_page_of(customer: Customer) -> str:
    return f"{CUSTOMERS}{customer.pk}/top-up/"


def test_customer_without_a_usable_token_has_no_top_up(admin_client: Client, customer: Customer) -> None:
    tokens.revoke(token=token_of(customer, "gone"))
    token_of(customer, "test", 0, is_test=True)
    assert top_up_page_of(customer) not in admin_client.get(page_of(customer)).text
    assert not admin_client.get(top_up_page_of(customer)).context["form"].fields["token"].queryset.exists()


def test_only_usable_token_is_selected_to_be_topped_up(admin_client: Client, customer: Customer) -> None:
    token = token_of(customer, "till", 30)
    tokens.revoke(token=token_of(customer, "gone"))
    assert top_up_page_of(customer) in admin_client.get(page_of(customer)).text
    opened = admin_client.get(top_up_page_of(customer))
    assert f'<option value="{token.pk}" selected>' in opened.text
    second = token_of(customer, "second")
    opened = admin_client.get(top_up_page_of(customer))
    assert f'<option value="{token.pk}" selected>' not in opened.text
    for other in (issue_token("of nobody"), "", second.pk + 99):
        refused = submit(admin_client, top_up_page_of(customer), **PAID, token=getattr(other, "pk", other))
        assert refused.status_code == 200
    assert set(ApiToken.objects.values_list("credits", flat=True)) == {30}


def test_customers_top_up_submitted_twice_adds_once(admin_client: Client, customer: Customer) -> None:
    token = token_of(customer, "till", 30)
    sent = {**hidden_fields(admin_client.get(top_up_page_of(customer))), **PAID, "token": token.pk}
    for message in ("Added ledger entry", "Already recorded"):
        answer = admin_client.post(top_up_page_of(customer), sent, follow=True)
        assert answer.redirect_chain == [(page_of(customer), 302)]
        assert f"till (#{token.pk}): {message}" in answer.text
    entry = token.entries.get(kind="top-up")
    assert (entry.amount, entry.price, entry.reference, entry.actor) == (25, Decimal("2.5"), "INV-17", "admin")
    assert LogEntry.objects.get().object_id == str(token.pk)
    assert "reference" in submit(admin_client, top_up_page_of(customer), **{**PAID, "amount": 26}, token=token.pk).text


@pytest.mark.parametrize("own_reference", ["", "INV-17"])
def test_top_up_page_sent_for_another_token_is_refused(
    admin_client: Client, customer: Customer, own_reference: str
) -> None:
    first, second = token_of(customer, "first", 0), token_of(customer, "second", 0)
    sent = {**hidden_fields(admin_client.get(top_up_page_of(customer))), **PAID, "own_reference": own_reference}
    admin_client.post(top_up_page_of(customer), {**sent, "token": first.pk})
    for _ in range(2):
        answer = admin_client.post(top_up_page_of(customer), {**sent, "token": second.pk})
        named = "Reference INV-17" if own_reference else "This page"
        assert f"{named} has already topped up first (#{first.pk}) (ledger entry" in answer.text
    assert set(ApiToken.objects.values_list("name", "credits")) == {("first", 25), ("second", 0)}
    again = admin_client.post(top_up_page_of(customer), {**sent, "token": first.pk}, follow=True)
    assert "Already recorded" in again.text
    submit(admin_client, top_up_page_of(customer), **{**PAID, "own_reference": "INV-18"}, token=second.pk)
    assert set(ApiToken.objects.values_list("name", "credits")) == {("first", 25), ("second", 25)}


def test_top_up_page_is_used_up_by_a_token_that_was_moved(admin_client: Client, customer: Customer) -> None:
    first, second = token_of(customer, "first", 0), token_of(customer, "second", 0)
    sent = {**hidden_fields(admin_client.get(top_up_page_of(customer))), **PAID, "own_reference": ""}
    admin_client.post(top_up_page_of(customer), {**sent, "token": first.pk})
    ApiToken.objects.filter(pk=first.pk).update(customer=customers.create(name="Other Ltd"))
    answer = admin_client.post(top_up_page_of(customer), {**sent, "token": second.pk})
    assert f"This page has already topped up first (#{first.pk})" in answer.text
    assert ApiToken.objects.get(pk=second.pk).credits == 0


@pytest.mark.django_db(transaction=True)
def test_top_up_page_sent_for_two_tokens_at_once_adds_once(customer: Customer) -> None:
    boss, client = User.objects.create_superuser("boss", password="x"), Client()
    client.force_login(boss)
    owned = [token_of(customer, name, 0) for name in ("first", "second", "third")]
    url = top_up_page_of(customer)
    for n in range(1, 4):
        sent = {**hidden_fields(client.get(url)), **PAID, "own_reference": ""}
        answers = post_all_concurrently(boss, [(url, {**sent, "token": token.pk}) for token in owned])
        assert sorted(answer.status_code for answer in answers) == [200, 200, 302]
        assert sum(ApiToken.objects.values_list("credits", flat=True)) == 25 * n


def test_supports_allowance_limits_a_customers_top_up(customer: Customer, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 10
    token, support = token_of(customer, "till", 30), logged_in("support")
    assert submit(support, top_up_page_of(customer), **PAID, token=token.pk).status_code == 200
    assert submit(support, top_up_page_of(customer), **{**PAID, "amount": 10}, token=token.pk).status_code == 302
    token.refresh_from_db()
    assert token.credits == 40
