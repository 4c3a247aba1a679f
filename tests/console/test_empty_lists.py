"""Lists without rows."""

import pytest
from django.test import Client

from tests.console_pages import words

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("query", "text", "link"),
    [
        ("", "There are no rules yet. Add rule", "/admin/phonebook/numberrule/add/"),
        ("?spam__exact=1", "No rules match. Show all rules", 'href="?"'),
    ],
)
def test_empty_list_says_whether_rows_are_filtered(admin_client: Client, query: str, text: str, link: str) -> None:
    markup = admin_client.get(f"/admin/phonebook/numberrule/{query}").content.decode()
    assert text in words(markup)
    assert link in markup


def test_empty_list_without_filters_offers_to_clear_none(admin_client: Client) -> None:
    markup = admin_client.get("/admin/phonebook/importbatch/").content.decode()
    assert "There are no imports yet." in words(markup)
    assert "Show all" not in words(markup)


def test_links_to_the_page_that_adds_an_object_have_one_text(admin_client: Client) -> None:
    tokens, customers = (words(admin_client.get(f"/admin/accounts/{name}/").text) for name in ("apitoken", "customer"))
    assert (tokens.count("Issue an API token"), tokens.count("Add")) == (2, 0)  # in the header and in the empty list
    assert customers.count("Add customer") == 2
