"""Tokens and deletions of customers at the same moment, in the console."""

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.urls import reverse

from accounts import customers, tokens
from accounts.models import ApiToken, Customer
from tests.accounts.admin.pages import (
    CUSTOMERS,
    a_lock_is_awaited,
    issue,
    issue_token,
    page,
    submit,
    token_of,
)
from tests.console.role_table import logged_in


@pytest.fixture
def customer() -> Customer:
    return customers.create(name="Example Ltd")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("issue", [True, False])
def test_customer_that_is_deleted_gets_no_token(issue: bool) -> None:
    customer = customers.create(name="Example Ltd")
    client = logged_in("superuser")
    token = tokens.issue(name="pbx", actor="test").token

    def assign() -> str:
        try:
            if issue:
                with pytest.raises(ValueError, match="deleted meanwhile") as refused:
                    tokens.issue(name="second", actor="test", customer=customer)
                return str(refused.value)
            sent = {"name": "pbx", "customer": f"#{customer.pk}", "note": "", "contact": "", "low_balance_at": ""}
            return str(client.post(reverse("admin:accounts_apitoken_edit", args=[token.pk]), sent).text)
        finally:
            connection.close()

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            Customer.objects.get(pk=customer.pk).delete()
            assignment = pool.submit(assign)
            # Until it waits for the lock. On SQLite nobody can see that, and it may begin after this transaction.
            while connection.vendor == "postgresql" and not a_lock_is_awaited() and not assignment.done():
                time.sleep(0.005)
        answer = assignment.result()
    assert "deleted meanwhile" in answer or "There is no customer with this id" in answer
    assert not ApiToken.objects.exclude(customer=None).exists()


def without_waiting(change: Callable[[], Any]) -> None:
    """On a connection of its own. Changes nothing if a lock is held, or if the request has finished its change."""
    try:
        with connection.cursor() as cursor:
            no_wait = "SET lock_timeout = 50" if connection.vendor == "postgresql" else "PRAGMA busy_timeout = 50"
            cursor.execute(no_wait)
        with suppress(DatabaseError, ValueError):
            change()
    finally:
        connection.close()


def each_moment(send: Callable[[Customer], Any], change: Callable[[Customer], Any]) -> Iterator[tuple[Customer, Any]]:
    """A customer and the response of `send`, with `change` before its first statement, before its second, and so on."""
    for moment in itertools.count():
        customer, statements = customers.create(name="Example Ltd"), itertools.count()

        def run(
            execute: Any,
            *args: Any,
            customer: Customer = customer,
            statements: Iterator[int] = statements,
            moment: int = moment,
        ) -> Any:
            if next(statements) == moment:
                with ThreadPoolExecutor() as pool:
                    pool.submit(without_waiting, lambda: change(customer)).result()
            return execute(*args)

        with connection.execute_wrapper(run):
            yield customer, send(customer)
        if next(statements) <= moment:
            return


@pytest.mark.django_db(transaction=True)
def test_deletion_is_confirmed_first() -> None:
    customer = customers.create(name="Example Ltd")
    assert "Are you sure" in logged_in("superuser").get(f"{CUSTOMERS}{customer.pk}/delete/").text


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("by", ["page", "action"])
def test_deletion_is_no_error_whenever_a_token_is_issued(by: str) -> None:
    client, kept = logged_in("superuser"), set()

    def delete(customer: Customer) -> Any:
        if by == "page":
            return client.post(f"{CUSTOMERS}{customer.pk}/delete/", {"post": "yes"})
        return client.post(CUSTOMERS, {"post": "yes", "action": "delete_selected", "_selected_action": customer.pk})

    for customer, answer in each_moment(delete, lambda customer: token_of(customer, "pbx")):
        has_token = ApiToken.objects.filter(customer=customer).exists()
        assert Customer.objects.filter(pk=customer.pk).exists() == has_token
        assert answer.status_code == (200 if has_token else 302)
        kept.add(has_token)
    assert kept == {True, False}


@pytest.mark.django_db(transaction=True)
def test_issue_page_names_the_deletion_of_its_customer() -> None:
    client, refused = logged_in("superuser"), set()
    for customer, answer in each_moment(
        lambda customer: issue(client, customer=f"#{customer.pk}"),
        lambda customer: Customer.objects.filter(pk=customer.pk).delete(),
    ):
        has_token = ApiToken.objects.filter(customer=customer).exists()
        named = ("no customer with this id" in answer.text) or ("deleted meanwhile. Choose another" in answer.text)
        assert (answer.status_code, named) == (200, not has_token)
        refused.add(named)
    assert refused == {True, False}


@pytest.mark.django_db(transaction=True)
def test_create_on_the_edit_page_locks_the_customer_it_finds() -> None:
    """The customer was created meanwhile, and is deleted before the token has it."""
    client, token, found = logged_in("superuser"), issue_token("pbx"), set()
    sent = {"name": "pbx", "customer": 'Create "example LTD"'}
    for customer, answer in each_moment(
        lambda customer: submit(client, page(token, "edit"), **sent),
        lambda customer: Customer.objects.filter(pk=customer.pk).delete(),
    ):
        token.refresh_from_db()
        named = "deleted meanwhile. Choose another" in answer.text
        assert (answer.status_code, token.customer is None) == ((200, True) if named else (302, False))
        found.add(token.customer == customer)
        ApiToken.objects.update(customer=None)
        Customer.objects.all().delete()
    assert found == {True, False}


def delete_without_a_look(customer: Customer) -> None:
    """As a deletion that has not seen the customer's token."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts_customer WHERE id = %s", [customer.pk])


@pytest.mark.django_db(transaction=True)
def test_customer_that_gets_a_token_is_not_deleted(customer: Customer) -> None:
    token = token_of(customer, "pbx")
    with pytest.raises(IntegrityError):
        delete_without_a_look(customer)
    token.refresh_from_db()
    assert token.customer == customer
