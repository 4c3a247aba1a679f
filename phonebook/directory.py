"""What telephones may search: the operator's contacts and rules. Nothing is charged here (`paid_search`)."""

from collections.abc import Iterator
from typing import NamedTuple

from django.conf import settings
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


def full_number(caller: str) -> str:
    """The number with its country code, digits only, of a number as the telephone system sends it; empty if it is
    none. The settings are those of integrations/ (docs/telephone-systems.md)."""
    country, trunk = settings.COUNTRY_CODE, settings.TRUNK_PREFIX
    try:
        digits = numbers.without_separators(caller)
        if digits.startswith("+"):
            digits = digits.removeprefix("+")
        elif digits.startswith(settings.INTERNATIONAL_PREFIX):
            digits = digits.removeprefix(settings.INTERNATIONAL_PREFIX)
        elif country and trunk and digits.startswith(trunk):
            digits = country + digits.removeprefix(trunk)
        elif country and len(digits) == settings.NATIONAL_DIGITS:
            digits = country + digits
        return numbers.parse(digits)
    except numbers.InvalidNumber:
        return ""


def of_number(number: str) -> Entry | None:
    """Name and spam classification of the rule that applies to `number`, as in a search; otherwise the contact's name.
    None without a name, unless the rule says spam."""
    rule, contact = rules.applying(number).first(), Contact.objects.filter(number=number).first()
    name = (rule and rule.name) or (contact and contact.name) or ""
    return entry(number, name, contact.location if contact else "", spam=bool(rule and rule.spam))


def entry(number: str, name: str, location: str, *, spam: bool) -> Entry | None:
    """What a telephone shows: SPAM_MARK comes before the name of a spam caller. None for another one without a name."""
    name = clean_text(name)
    if spam:
        name = settings.SPAM_MARK + (name or f"+{number}")
    return Entry(number, name, clean_text(location)) if name else None


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
