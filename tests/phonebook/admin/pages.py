"""URLs of the console's pages about numbers."""

from typing import Any

from django.test import Client

from phonebook.models import ComplaintDay, Contact, NumberRule

NUMBER = 493023125042
RULES = "/admin/phonebook/numberrule/"
CONTACTS = "/admin/phonebook/contact/"
COMPLAINTS = "/admin/phonebook/complaintday/"
MODELS: dict[str, Any] = {RULES: NumberRule, CONTACTS: Contact, COMPLAINTS: ComplaintDay}


def row_page(url: str, number: int) -> str:
    """The URL of the row of this number in the list at `url`."""
    return f"{url}{MODELS[url].objects.get(number=number).pk}/"


def searched(client: Client, url: str, text: str) -> Any:
    """The response to a search in the list at `url`."""
    return client.post(url, {"search_term": text}, follow=True)
