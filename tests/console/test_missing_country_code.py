"""What the console says where a number is entered as it is dialed at home."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import CreditEntry
from tests.accounts.admin.pages import entry_page
from tests.plugin import of_addons

pytestmark = pytest.mark.django_db

TYPED = "030 23125555"
#: By name of the URL, what is sent with the number, and the name of its field.
PAGES = {
    "phonebook_numberrule_add": ({"spam": "true"}, "number"),
    "phonebook_contact_add": ({"name": "x"}, "number"),
    "phonebook_complaintday_add": ({}, "number"),
    **of_addons("COUNTRY_CODE_PAGES"),
}


def answer(client: Client, name: str, typed: str) -> Any:
    fields, field = PAGES[name]
    return client.post(reverse(f"admin:{name}"), {**fields, field: typed})


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("typed", "country_code", "says"),
    [
        (TYPED, "49", "Enter +49 30 23125555, or the number with another country code."),
        (TYPED, "", "Enter it with its country code, for example +49 30 23125042."),
        ("0049 30 23125555", "", "Enter +49 30 23125555, or the number with another country code."),
        ("030 23125555", "1", "Enter it with its country code, for example +49 30 23125042."),
    ],
)
def test_page_says_what_to_enter(
    admin_client: Client,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    name: str,
    typed: str,
    country_code: str,
    says: str,
) -> None:
    settings.COUNTRY_CODE = country_code
    caplog.set_level("DEBUG")
    response = answer(admin_client, name, typed)
    assert response.status_code == 200
    assert f"&quot;{typed}&quot; has no country code. {says}" in response.text
    assert "23125555" not in caplog.text.replace(" ", "") + str(admin_client.cookies)


def test_number_of_an_entry_is_asked_for_alike(admin_client: Client, search: CreditEntry, settings: Any) -> None:
    settings.COUNTRY_CODE = "49"
    text = admin_client.post(entry_page(search, "check-number"), {"number": TYPED}).text
    assert "Enter +49 30 23125555, or the number" in text


@pytest.mark.parametrize("typed", ["12", "+49 30 1", "4930231250421234567", "no number", "+999 1"])
def test_other_text_is_not_said_to_lack_one(admin_client: Client, settings: Any, typed: str) -> None:
    settings.COUNTRY_CODE = "49"
    for name in ("phonebook_contact_add", *of_addons("COUNTRY_CODE_PAGES")):
        assert "has no country code" not in answer(admin_client, name, typed).text


def test_number_is_not_searched_for_in_the_history(admin_client: Client) -> None:
    """Its search is in the URL."""
    response = admin_client.get("/admin/admin/logentry/", {"q": TYPED}, follow=True)
    assert "Numbers cannot be searched here, because" in response.text
    assert "23125555" not in response.text.replace(" ", "")
