"""Where the admin keeps what is known about numbers."""

from typing import Any

from django.db.models import Model
from django.test import Client

from lookup.sealing import seal

NUMBER = 493023125042
RULES = "/admin/lookup/numberrule/"
CONTACTS = "/admin/lookup/contact/"
COMPLAINTS = "/admin/lookup/complaintday/"


def address(row: Model | int) -> str:
    """What stands for a row in addresses: a number sealed, any other key as it is."""
    if isinstance(row, Model) and row._meta.pk is not None and row._meta.pk.name != "number":
        return str(row.pk)
    return seal(str(row.pk if isinstance(row, Model) else row))


def searched(client: Client, url: str, text: str) -> Any:
    """The list after a search."""
    return client.post(url, {"search_term": text}, follow=True)
