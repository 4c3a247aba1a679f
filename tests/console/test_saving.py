"""Where the operator is after a form was saved."""

import pytest
from django.db.models import Model
from django.test import Client

from tests.console.console_rows import filled, one_of_each
from tests.console.role_table import address, logged_in
from tests.console_pages import words
from tests.plugin import of_addons

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows() -> dict[str, Model]:
    return one_of_each()


@pytest.fixture
def boss() -> Client:
    return logged_in("superuser")


@pytest.mark.parametrize(
    "model",
    [
        *("accounts.apitoken", "accounts.customer", "auth.user"),
        *("phonebook.complaintday", "phonebook.contact", "phonebook.numberrule"),
    ],
)
def test_saved_change_opens_the_page_of_its_object(rows: dict[str, Model], boss: Client, model: str) -> None:
    key = str(rows[model].pk)
    form = boss.get(address(model, "edit" if model.startswith("accounts") else "change", key))
    assert "Save and continue editing" not in form.text
    response = boss.post(form.request["PATH_INFO"], filled(form), follow=True)
    assert response.redirect_chain == [(address(model, "change", key), 302)]
    assert "was changed successfully" in words(response.text)


@pytest.mark.parametrize("model", ["auth.group", *of_addons("EDITED")])
def test_saved_change_of_a_form_alone_opens_the_list(rows: dict[str, Model], boss: Client, model: str) -> None:
    url = address(model, "change", str(rows[model].pk))
    response = boss.post(url, filled(boss.get(url)), follow=True)
    assert response.redirect_chain == [(address(model, "changelist"), 302)]
    assert "was changed successfully" in words(response.text)


@pytest.mark.parametrize(("model", "fields"), [("auth.group", {"name": "late shift"}), *of_addons("ADDED").items()])
def test_added_form_alone_opens_the_list(boss: Client, model: str, fields: dict[str, str]) -> None:
    response = boss.post(address(model, "add"), fields, follow=True)
    assert response.redirect_chain == [(address(model, "changelist"), 302)]
    assert "was added successfully" in words(response.text)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("phonebook.contact", {"number": "+12125550142", "name": "Example Bakery"}),
        ("phonebook.numberrule", {"number": "+12125550142", "spam": "true"}),
    ],
)
def test_added_object_is_shown(boss: Client, model: str, fields: dict[str, str]) -> None:
    response = boss.post(address(model, "add"), fields, follow=True)
    [(url, _)] = response.redirect_chain
    assert url.startswith(address(model, "changelist"))
    assert url.endswith("/change/")
    assert "was added successfully" in words(response.text)
