"""Reader of the CSV that Google Contacts exports ("Google CSV"): one row per person or organization.

Column names are English in every account language. The number of columns depends on the contacts: `Phone 1 - Value`,
`Phone 2 - Value` and so on. A cell may hold several values separated by ` ::: `, and notes contain line breaks. Until
2024 the columns had other names (`Given Name`, `Organization 1 - Name`), which other programs still write.
"""

import re
from itertools import zip_longest
from typing import Any

from core.text import clean_text
from phonebook.imports.readers import base, csv_rows

_PHONE = re.compile(r"phone [0-9]+ - value")
_CITY = re.compile(r"(address [0-9]+) - city")
#: The columns of a name's parts, in the order in which they are written.
_NAME = (
    ("name prefix",),
    ("first name", "given name"),
    ("middle name", "additional name"),
    ("last name", "family name"),
    ("name suffix",),
)
#: Used where the name is empty, best first.
_OTHER_NAMES = (("organization name", "organization 1 - name"), ("file as",), ("nickname",))


class GoogleReader(csv_rows.ContactReader):
    error = "the first line names no columns of Google Contacts, such as First Name and Phone 1 - Value"

    def __init__(self, header: csv_rows.Header, **options: Any) -> None:
        super().__init__(header, **options)
        self._phones = [index for index, column in enumerate(header.columns) if _PHONE.fullmatch(column)]
        self._whole_name = header.index("name")
        self._names = [header.index(*names) for names in _NAME]
        self._other_names = [header.index(*names) for names in _OTHER_NAMES]
        self._addresses = [
            tuple(header.index(f"{address[1]} - {part}") for part in ("city", "region", "country"))
            for address in map(_CITY.fullmatch, header.columns)
            if address
        ]

    @classmethod
    def matches(cls, header: csv_rows.Header) -> bool:
        is_export = header.has("file as", "group membership") or any(map(_PHONE.fullmatch, header.columns))
        return is_export and header.has("first name", "given name", "name")

    def contact(self, cells: list[str]) -> tuple[str, list[tuple[str, str, str]]]:
        numbers = [value for index in self._phones for value in _values(cells[index])]
        name = (
            clean_text(cells[self._whole_name])
            or clean_text(" ".join(cells[index] for index in self._names))
            or next(
                filter(None, (clean_text(value) for index in self._other_names for value in _values(cells[index]))), ""
            )
        )
        location = _location([[cells[index] for index in address] for address in self._addresses])
        return name, [(number, name, location) for number in numbers]


def _values(cell: str) -> list[str]:
    return [value for value in cell.split(":::") if value.strip()]


def _location(addresses: list[list[str]]) -> str:
    """The location of the first address that has one. Its city, region and country may each hold several values."""
    for address in addresses:
        for city, state, country in zip_longest(*(cell.split(":::") for cell in address), fillvalue=""):
            if found := base.location(city, state, country):
                return found
    return ""
