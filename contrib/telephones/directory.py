"""What telephones may search: the operator's contacts and rules. Nothing is charged here (`paid_search`)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Lower

from core import numbers
from core.text import INVISIBLE, clean_text
from phonebook import rules
from phonebook.contacts import named
from phonebook.models import Contact

#: What has a meaning in SIP or in a telephone's display, and what shows nothing, as in integrations/.
_NOT_DISPLAYED = re.compile(rf'["\\<>;\x00-\x1f\x7f{INVISIBLE}]')
MAX_BYTES = 64
#: Where a zero at the beginning is a part of the number, and no trunk prefix: Italy, Ivory Coast, Benin, Gabon, Congo,
#: San Marino, Vatican City.
ZERO_STAYS = frozenset({"39", "225", "229", "241", "242", "378", "379"})
#: What Twilio sends for a caller without a number: RESTRICTED, BLOCKED, UNKNOWN, ANONYMOUS, UNAVAILABLE in the letters
#: of a telephone's keys.
WITHHELD = frozenset({"7378742833", "2562533", "8656696", "266696687", "86282452253"})
#: No country code begins with 0. Behind 1, North America's, come ten digits, the first from 2 to 9.
_NUMBER = re.compile("1[2-9][0-9]{9}|[2-9][0-9]{6,14}")


class Entry(NamedTuple):
    """`number`: digits. `name` is not empty, and both texts are as `displayed` returns them, after a spam mark."""

    number: str
    name: str
    location: str = ""


def full_number(caller: str) -> str:
    """The number with its country code, digits only, of a number as the telephone system sends it; empty if it is
    none. The settings are those of integrations/ (docs/telephone-systems.md)."""
    country, lengths = settings.COUNTRY_CODE, settings.NATIONAL_DIGITS
    trunk = "" if country in ZERO_STAYS else settings.TRUNK_PREFIX
    if caller.endswith("@anonymous.invalid"):  # RFC 3323
        return ""
    try:
        digits = numbers.without_separators(caller)
        if digits.startswith("+00"):
            digits = digits.removeprefix("+")
        if digits.startswith("+"):
            digits = digits.removeprefix("+")
        elif digits.startswith(settings.INTERNATIONAL_PREFIX):
            digits = digits.removeprefix(settings.INTERNATIONAL_PREFIX)
        elif country and trunk and digits.startswith(trunk) and (not lengths or _is_national(digits[len(trunk) :])):
            digits = country + digits.removeprefix(trunk)
        elif country and _is_national(digits):
            digits = country + digits
        if country and trunk and digits.startswith(country + trunk):  # +49 030: dialed at home only
            rest = digits.removeprefix(country + trunk)
            if _is_national(rest) if lengths else trunk.startswith("0"):
                digits = country + rest
        return digits if _NUMBER.fullmatch(digits) and digits not in WITHHELD else ""
    except numbers.InvalidNumber:
        return ""


def dialed_number(number: str) -> str:
    """`number` (digits, with country code) as the telephone system writes it: what `full_number` completes to it, a
    national number if possible. Without the settings for numbers: with a plus."""
    country = settings.COUNTRY_CODE
    national = number.removeprefix(country) if country and number.startswith(country) else ""
    forms = [settings.TRUNK_PREFIX + national, national, settings.INTERNATIONAL_PREFIX + number]
    return next((form for form in forms if country and full_number(form) == number), f"+{number}")


def displayed(text: str) -> str:
    """One line of at most MAX_BYTES bytes: spaces replace quotes, backslashes, angle brackets, semicolons
    and what shows nothing."""
    text = clean_text(_NOT_DISPLAYED.sub(" ", text))
    return text.encode()[:MAX_BYTES].decode(errors="ignore").rstrip()


def _is_national(digits: str) -> bool:
    return len(digits) in settings.NATIONAL_DIGITS


def of_number(number: str) -> Entry | None:
    """Name and spam classification of the rule that applies to `number`, as in a search; otherwise the contact's name.
    None without a name, unless the rule says spam."""
    rule, contact = rules.applying(number).first(), Contact.objects.filter(number=number).first()
    name = (rule and rule.name) or (contact and contact.name) or ""
    return entry(number, name, contact.location if contact else "", spam=bool(rule and rule.spam))


def entry(number: str, name: str, location: str, *, spam: bool) -> Entry | None:
    """What a telephone shows: SPAM_MARK comes before the name of a spam caller. None for another one without a name."""
    name = displayed(name)
    if spam:
        name = settings.SPAM_MARK + (name or f"+{number}")
    return Entry(number, name, displayed(location)) if name else None


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
        if name := displayed(name):
            yield Entry(str(number), name, displayed(location))
