"""Reader of the CSV that Outlook and Outlook.com export: one row for each person or firm, with English column names.

The columns are general knowledge, not looked up: Microsoft publishes no list of them. Of an Outlook in another language
the columns are named in it, and such a file is not recognised.
"""

from collections.abc import Iterator

from lookup.answers import clean_text
from lookup.datasets import csv_rows
from lookup.datasets.reading import ContactRow, Rejected, Unreadable

_COMPANY_MAIN_PHONE = "company main phone"
#: Not here: Assistant's Phone, which is somebody else's, and Telex.
_PHONES = (
    "mobile phone",
    "primary phone",
    "business phone",
    "business phone 2",
    _COMPANY_MAIN_PHONE,
    "home phone",
    "home phone 2",
    "other phone",
    "callback",
    "car phone",
    "isdn",
    "pager",
    "radio phone",
    "tty/tdd phone",
    "business fax",
    "home fax",
    "other fax",
)
_OF_THE_FIRM = frozenset({"business phone", "business phone 2", "business fax", _COMPANY_MAIN_PHONE})
_NAME = ("title", "first name", "middle name", "last name", "suffix")


def recognises(first_line: str) -> bool:
    found = csv_rows.header(first_line)
    return found is not None and _is_outlooks(found)


def _is_outlooks(header: csv_rows.Header) -> bool:
    return header.find("first name", "last name", "company") is not None and header.find(*_PHONES) is not None


def read(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """One row for each number of a contact. `region` (ISO 3166-1 alpha-2): where numbers without a country code are
    dialled. Raises Unreadable."""
    header, line = csv_rows.read_header(lines)
    if not _is_outlooks(header):
        raise Unreadable("the first line names no columns of Outlook in English, such as First Name and Mobile Phone")
    phones = [phone for phone in _PHONES if phone in header.columns]
    for row in csv_rows.rows(lines, header, multiline=True, line=line):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row
        contact = dict(zip(header.columns, cells, strict=False))
        there = [phone for phone in phones if contact.get(phone, "").strip()]
        found = [(contact[phone], *_name_and_place(contact, phone)) for phone in there]
        yield from csv_rows.contacts(line, found, region)


def _name_and_place(contact: dict[str, str], phone: str) -> tuple[str, str]:
    company = clean_text(contact.get("company", ""))
    name = clean_text(" ".join(contact.get(part, "") for part in _NAME)) or company
    if phone == _COMPANY_MAIN_PHONE:
        name = company or name
    places = ("business", "home", "other") if phone in _OF_THE_FIRM else ("home", "business", "other")
    return name, next(filter(None, (_place(contact, place) for place in places)), "")


def _place(contact: dict[str, str], of: str) -> str:
    country = contact.get(f"{of} country/region") or contact.get(f"{of} country", "")
    return csv_rows.place(contact.get(f"{of} city", ""), contact.get(f"{of} state", ""), country)
