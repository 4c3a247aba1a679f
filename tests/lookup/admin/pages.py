"""URLs of the console's pages about numbers."""

from typing import Any

from django.db.models import Model
from django.test import Client

from lookup.admin.encrypted_urls import encrypt

NUMBER = 493023125042
RULES = "/admin/lookup/numberrule/"
CONTACTS = "/admin/lookup/contact/"
COMPLAINTS = "/admin/lookup/complaintday/"


def address(row: Model | int) -> str:
    """The key of a row in URLs: a number is encrypted, any other key is not."""
    if isinstance(row, Model) and row._meta.pk is not None and row._meta.pk.name != "number":
        return str(row.pk)
    return encrypt(str(row.pk if isinstance(row, Model) else row))


def searched(client: Client, url: str, text: str) -> Any:
    """The response to a search in the list at `url`."""
    return client.post(url, {"search_term": text}, follow=True)
