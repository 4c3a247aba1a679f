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
