"""Two people edit one object: what the page of one has not changed stays as the other has left it.

Cases from public reports: Django's ticket 32867 and django-reversion's issue 79 (an edit is lost), and Django's ticket
22502 (a hidden initial value that always differs).
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import connections
from django.db.models import Model
from django.test import Client

from accounts.admin.customers import ContactForm
from accounts.models import ApiToken, Customer, CustomerContact
from console.admin.users import RoleAdmin
from core import history
from phonebook.models import Contact, NumberRule
from tests.console.console_rows import one_of_each
from tests.console.role_table import address, logged_in
from tests.console_pages import submitted, words
from tests.plugin import of_addons

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows() -> dict[str, Model]:
    return one_of_each()


@pytest.fixture
def boss() -> Client:
    return logged_in("superuser")


@pytest.fixture
def alice() -> Client:
    return logged_in("superuser", username="alice")


@pytest.fixture
def bob() -> Client:
    return logged_in("superuser", username="bob")


def edit(row: Model) -> str:
    return address(row._meta.label_lower, "edit" if row._meta.app_label == "accounts" else "change", str(row.pk))


def save(client: Client, row: Model, page: Any, **fields: Any) -> Any:
    return client.post(edit(row), submitted(page, **fields), follow=True)


def test_other_tab_does_not_reset_a_name(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    token = rows["accounts.apitoken"]
    stale = boss.get(edit(token))
    save(alice, token, alice.get(edit(token)), name="shop")
    response = save(boss, token, stale, low_balance_at="7")
    token.refresh_from_db()
    assert (token.name, token.low_balance_at) == ("shop", 7)
    assert 'alice changed "Name" at' in words(response.text)
    assert LogEntry.objects.latest("pk").get_change_message() == 'Changed Low balance threshold from nothing to "7".'


@pytest.mark.parametrize(
    ("model", "field", "first", "second"),
    [
        ("accounts.apitoken", "name", "shop", "store"),
        ("accounts.apitoken", "note", "one\r\ntwo", "three"),
        ("accounts.customer", "name", "Shop Ltd", "Store Ltd"),
        ("auth.group", "name", "day shift", "late shift"),
        ("auth.user", "last_name", "Miller", "Smith"),
        ("phonebook.complaintday", "total", "5", "6"),
        ("phonebook.contact", "name", "Bakery", "Baker"),
        ("phonebook.numberrule", "note", "called", "asked"),
        *((model, *values) for model, values in of_addons("EDITED").items()),
    ],
)
def test_second_change_of_a_field_is_not_silent(
    rows: dict[str, Any], boss: Client, alice: Client, model: str, field: str, first: str, second: str
) -> None:
    row = rows[model]
    stale = boss.get(edit(row))
    save(alice, row, alice.get(edit(row)), **{field: first})
    response = save(boss, row, stale, **{field: second})
    text = words(response.text)
    assert f'alice changed this to "{" ".join(first.split())}" at' in text
    assert "Save again to replace it." in text
    row.refresh_from_db()
    assert str(getattr(row, field)) == first
    assert submitted(response)[field] == [second]
    save(boss, row, response)
    row.refresh_from_db()
    assert str(getattr(row, field)) == second


@pytest.mark.parametrize(
    "model",
    [
        *("accounts.apitoken", "accounts.customer", "auth.group", "auth.user"),
        *("phonebook.complaintday", "phonebook.contact", "phonebook.numberrule"),
        *of_addons("EDITED"),
    ],
)
def test_page_without_changes_changes_nothing(rows: dict[str, Any], boss: Client, model: str) -> None:
    row = rows[model]
    if hasattr(row, "note"):
        type(row).objects.update(note=" a\nb ")
    save(boss, row, boss.get(edit(row)))
    message = LogEntry.objects.filter(object_id=row.pk, content_type__model=row._meta.model_name).latest("pk")
    assert message.get_change_message() == "No fields changed."


def test_box_that_is_not_ticked_is_no_change(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    rule = rows["phonebook.numberrule"]
    stale = boss.get(edit(rule))
    save(alice, rule, alice.get(edit(rule)), spam="true", is_prefix="on")
    save(boss, rule, stale, note="seen")
    rule = NumberRule.objects.get()
    assert (rule.spam, rule.is_prefix, rule.note) == (True, True, "seen")


def test_choice_is_named_as_its_field_names_it(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    rule = rows["phonebook.numberrule"]
    stale = boss.get(edit(rule))
    save(alice, rule, alice.get(edit(rule)), spam="true")
    assert 'alice changed this to "Spam"' in words(save(boss, rule, stale, spam="false").text)


def test_role_added_by_another_is_not_removed(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    user = rows["auth.user"]
    viewer, billing, auditor = (Group.objects.get(name=name) for name in ("viewer", "billing", "auditor"))
    user.groups.set([viewer])
    stale = boss.get(edit(user))
    save(alice, user, alice.get(edit(user)), groups=[viewer.pk, billing.pk])
    save(boss, user, stale, groups=[auditor.pk])
    assert set(user.groups.all()) == {billing, auditor}


def test_renamed_customer_is_no_conflict(rows: dict[str, Any], boss: Client) -> None:
    token, customer = rows["accounts.apitoken"], rows["accounts.customer"]
    ApiToken.objects.update(customer=customer)
    stale = boss.get(edit(token))
    Customer.objects.update(name="Renamed Ltd")
    other = Customer.objects.create(name="Other Ltd")
    save(boss, token, stale, note="x")
    assert "No fields" not in LogEntry.objects.latest("pk").get_change_message()
    assert LogEntry.objects.latest("pk").get_change_message() == "Changed Note."
    ApiToken.objects.update(customer=other)
    save(boss, token, stale, note="y")
    assert ApiToken.objects.get().customer == other


def test_edit_of_a_number_keeps_what_a_save_sets(rows: dict[str, Any], boss: Client) -> None:
    contact = rows["phonebook.contact"]
    Contact.objects.update(book="office", import_batch=3, updated_at="2026-01-01T00:00Z")
    save(boss, contact, boss.get(edit(contact)), name="Mine")
    contact = Contact.objects.get()
    assert (contact.book, contact.import_batch, contact.name) == (None, None, "Mine")
    assert contact.updated_at.isoformat() > "2026-02"


@pytest.mark.django_db(transaction=True)
def test_permission_granted_during_a_save_is_kept(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    role = Group.objects.create(name="day shift")
    first, second = Permission.objects.filter(codename__in=("view_apitoken", "view_customer")).order_by("codename")
    stale = boss.get(edit(role))
    save_model, others = RoleAdmin.save_model, list[Future[Any]]()

    def grant() -> None:
        try:
            logged_in("superuser", username="other").post(edit(role), submitted(stale, permissions=[second.pk]))
        finally:
            connections.close_all()

    def save_later(*args: Any) -> None:
        if not others:  # the other request ends before this one, unless it waits for it
            others.append(pool.submit(grant))
            wait(others, timeout=2)
        save_model(*args)

    monkeypatch.setattr(RoleAdmin, "save_model", save_later)
    with ThreadPoolExecutor(1) as pool:
        save(boss, role, stale, permissions=[first.pk])
        others[0].result()
    assert set(role.permissions.all()) == {first, second}


def test_old_change_of_a_user_is_not_the_one_named(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    customer = rows["accounts.customer"]
    save(alice, customer, alice.get(edit(customer)), name="Shop")
    stale = boss.get(edit(customer))
    Customer.objects.update(name="Shop Ltd")  # by a command
    assert 'Somebody changed this to "Shop Ltd", after' in words(save(boss, customer, stale, name="Store").text)


def test_change_by_an_import_names_no_user(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    contact = rows["phonebook.contact"]
    stale = boss.get(edit(contact))
    save(alice, contact, alice.get(edit(contact)), name="Bakery")
    Contact.objects.update(name="Baker", import_batch=3)
    assert 'Import 3 changed this to "Baker", after' in words(save(boss, contact, stale, name="Miller").text)


def test_text_in_the_history_is_no_change(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    customer = rows["accounts.customer"]
    stale = boss.get(edit(customer))
    save(alice, customer, alice.get(edit(customer)), name="Shop")
    user = User.objects.create(username="bob")
    for message in ('"Name', '["Name"]', "[1"):
        history.record(action=history.Action.CHANGE, message=message, target=customer, user=user)
    assert 'alice changed this to "Shop" at' in words(save(boss, customer, stale, name="Store").text)


def test_password_is_in_no_hidden_input(rows: dict[str, Any], boss: Client) -> None:
    user = rows["auth.user"]
    user.set_password("correct horse")
    user.save()
    page = boss.get(edit(user))
    assert user.password not in page.text
    assert "initial-password" not in page.text


def test_deleted_object_says_who_deleted_it(rows: dict[str, Any], boss: Client, alice: Client) -> None:
    rule = rows["phonebook.numberrule"]
    stale = boss.get(edit(rule))
    alice.post(address("phonebook.numberrule", "delete", str(rule.pk)), {"post": "yes"})
    assert "Nothing was saved: alice deleted this rule at" in words(save(boss, rule, stale, note="x").text)


def test_deletion_is_told_to_those_who_may_edit_alone(rows: dict[str, Any], boss: Client) -> None:
    rule = rows["phonebook.numberrule"]
    boss.post(address("phonebook.numberrule", "delete", str(rule.pk)), {"post": "yes"})
    assert logged_in("staff").post(edit(rule), {"note": "x"}).status_code == 403


# --- Rows of a customer ----------------------------------------------------------------------------------------------


@pytest.fixture
def shop() -> Customer:
    shop = Customer.objects.create(name="Shop")
    for name in ("Ann", "Ben", "Cid"):
        CustomerContact.objects.create(customer=shop, name=name, email=f"{name.lower()}@example.org")
    return shop


def names() -> list[str]:
    return list(CustomerContact.objects.order_by("pk").values_list("name", flat=True))


def test_contact_of_another_tab_is_not_reset(shop: Customer, boss: Client, alice: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-1-name": "Bea"})
    save(boss, shop, stale, **{"contacts-0-name": "Amy"})
    assert names() == ["Amy", "Bea", "Cid"]


def test_contact_changed_twice_is_not_silent(shop: Customer, boss: Client, alice: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-1-name": "Bea"})
    response = save(boss, shop, stale, **{"contacts-1-name": "Bob"})
    assert 'alice changed this to "Bea" at' in words(response.text)
    assert names() == ["Ann", "Bea", "Cid"]
    save(boss, shop, response)
    assert names() == ["Ann", "Bob", "Cid"]


def test_deleted_contact_does_not_block_others(shop: Customer, boss: Client, alice: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-0-DELETE": "on"})
    response = save(boss, shop, stale, **{"contacts-2-name": "Cyd", "name": "Shop Ltd"})
    assert names() == ["Ben", "Cyd"]
    assert "alice deleted a customer contact at" in words(response.text)
    shop.refresh_from_db()
    assert shop.name == "Shop Ltd"


def test_edit_of_a_deleted_contact_is_not_lost(shop: Customer, boss: Client, alice: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-0-DELETE": "on"})
    response = save(boss, shop, stale, **{"contacts-0-name": "Amy"})
    assert "alice deleted this at" in words(response.text)
    assert names() == ["Ben", "Cid"]
    save(boss, shop, response)
    assert names() == ["Ben", "Cid", "Amy"]


def test_change_of_the_customer_is_none_of_a_contact(shop: Customer, boss: Client, alice: Client, bob: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-1-name": "Bea"})
    save(bob, shop, bob.get(edit(shop)), **{"name": "Shop Ltd", "contacts-0-name": "Amy"})
    assert 'alice changed this to "Bea" at' in words(save(boss, shop, stale, **{"contacts-1-name": "Bob"}).text)


def test_deletion_of_another_contact_is_not_named(shop: Customer, boss: Client, alice: Client, bob: Client) -> None:
    stale = boss.get(edit(shop))
    save(alice, shop, alice.get(edit(shop)), **{"contacts-0-DELETE": "on"})
    save(bob, shop, bob.get(edit(shop)), **{"contacts-0-DELETE": "on"})
    assert "alice deleted this at" in words(save(boss, shop, stale, **{"contacts-0-name": "Amy"}).text)
    assert names() == ["Cid"]


def test_save_of_a_contact_sets_changed_columns_alone(
    shop: Customer, boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clean(form: ContactForm) -> None:
        CustomerContact.objects.update(low_balance=False)

    monkeypatch.setattr(ContactForm, "clean", clean)
    save(boss, shop, boss.get(edit(shop)), **{"contacts-0-name": "Amy"})
    contact = shop.contacts.earliest("pk")
    assert (contact.name, contact.low_balance) == ("Amy", False)
