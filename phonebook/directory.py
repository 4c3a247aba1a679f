"""What telephones may search: the operator's contacts and rules. No vendor is called, and nothing is charged."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from django.db.models import QuerySet
from django.db.models.functions import Lower

from core import numbers
from core.text import clean_text
from phonebook import rules
from phonebook.models import Contact


class Entry(NamedTuple):
    """`number`: digits. `name` is not empty, and both texts are one line without control characters."""

    number: str
    name: str
    location: str = ""


def setting(name: str, default: str = "") -> str:
    """As in integrations/: docs/telephone-systems.md describes these environment variables."""
    return os.environ.get(f"CALLERID_{name}", default)


def full_number(caller: str) -> str:
    """The number with its country code, digits only; empty if it is none. As in integrations/."""
    digits = re.sub(r"[-.() ]", "", caller)
    country, trunk = setting("COUNTRY_CODE"), setting("TRUNK_PREFIX")
    international = setting("INTERNATIONAL_PREFIX", "00")
    if digits.startswith("+"):
        digits = digits[1:]
    elif international and digits.startswith(international):
        digits = digits[len(international) :]
    elif country and trunk and digits.startswith(trunk):
        digits = country + digits[len(trunk) :]
    elif country and str(len(digits)) == setting("NATIONAL_DIGITS"):
        digits = country + digits
    return digits if re.fullmatch(numbers.PATTERN, digits) else ""


def of_number(number: str) -> Entry | None:
    """Name and spam classification of the rule that applies to `number`, as in a search; otherwise the contact's name.
    None without a name, unless the rule says spam."""
    rule, contact = rules.applying(number).first(), Contact.objects.filter(number=number).first()
    name = clean_text((rule and rule.name) or (contact and contact.name) or "")
    if rule and rule.spam:
        name = setting("SPAM_MARK", "Spam: ") + (name or f"+{number}")
    return Entry(number, name, clean_text(contact.location) if contact else "") if name else None


def named(text: str, rows: QuerySet) -> QuerySet:
    """The contacts whose name contains the text, in any case (on SQLite only of A to Z), by number. Reads all rows, if
    few match."""
    return rows.filter(name__icontains=text.strip()).order_by("number")


def with_names(texts: list[str], limit: int) -> list[Entry]:
    """At most `limit` contacts whose names contain each of the texts, by name."""
    rows = Contact.objects.all()
    for text in texts:
        rows = named(text, rows)
    return sorted(_entries(rows[:limit]), key=lambda entry: entry.name.casefold())


def everyone() -> Iterator[Entry]:
    """All contacts with a name, by name."""
    return _entries(Contact.objects.exclude(name="").order_by(Lower("name"), "number"))


def _entries(rows: QuerySet) -> Iterator[Entry]:
    for number, name, location in rows.values_list("number", "name", "location").iterator():
        if name := clean_text(name):
            yield Entry(str(number), name, clean_text(location))
