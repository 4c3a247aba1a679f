"""Errors of forms are at their fields, all of them at once."""

import re
from uuid import uuid4

import pytest
from django.db.models import Model
from django.test import Client

from tests.console.console_rows import one_of_each
from tests.console.role_table import address, logged_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows() -> dict[str, Model]:
    return one_of_each()


def errors(text: str) -> dict[str, str]:
    """By the id of the field, which refers to its error."""
    found = dict(re.findall(r'<ul[^>]* id="(?:id_)?([^"]+)_error">\s*<li>(.*?)</li>', text, re.DOTALL))
    assert all(re.search(f'aria-describedby="[^"]*id_{name}_error', text) for name in found)
    return found


@pytest.mark.parametrize(
    ("action", "fields", "wrong"),
    [
        ("top_up", {"amount": "-1", "price": "-2"}, ["amount", "price", "reason"]),
        ("adjust", {"amount": "-99999", "reason": "x", "confirmed": "on"}, ["amount"]),
        ("adjust", {"amount": "5", "price": "-1", "reason": "x", "confirmed": "on"}, ["price"]),
        ("revoke", {}, ["reason", "confirmed"]),
    ],
)
def test_no_error_hides_another(rows: dict[str, Model], action: str, fields: dict[str, str], wrong: list[str]) -> None:
    boss, page = logged_in("superuser"), address("accounts.apitoken", action, str(rows["accounts.apitoken"].pk))
    once = re.findall(r'name="(once)" value="([^"]+)"', boss.get(page).text)
    text = boss.post(page, {**dict(once), **fields}).text
    assert [*errors(text)] == wrong
    [first] = re.findall(r"<(?:input|select|textarea)[^>]* autofocus[^>]*>", text)
    assert f'name="{wrong[0]}"' in first


def test_issue_names_every_wrong_field() -> None:
    fields = {"name": "", "initial_credits": "-1", "price": "x", "days": "0", "rate_limit": "0", "low_balance_at": "-1"}
    text = logged_in("superuser").post(address("accounts.apitoken", "add"), {**fields, "once": uuid4().hex}).text
    assert errors(text).keys() >= {*fields, "reason"}


def test_errors_of_a_changed_object_are_at_their_fields(rows: dict[str, Model]) -> None:
    boss, key = logged_in("superuser"), str(rows["accounts.apitoken"].pk)
    text = boss.post(address("accounts.apitoken", "edit", key), {"name": "", "contact": "no address"}).text
    assert errors(text).keys() == {"name", "contact"}


def test_no_form_of_a_login_asks_the_browser_to_check(client: Client) -> None:
    assert " required" not in client.get("/admin/login/").text
