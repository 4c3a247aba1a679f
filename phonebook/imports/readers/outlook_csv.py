"""Reader of the CSV that Outlook and Outlook.com export: one row per person or organization, with English column names.

The columns are general knowledge, not looked up: Microsoft publishes no list of them. An Outlook in another language
translates them, and its files are not recognized.
"""

from core.text import clean_text
from phonebook.imports.readers import base, csv_rows

_COMPANY_MAIN_PHONE = "company main phone"
#: Assistant's Phone, which is another person's, and Telex are left out.
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
_BUSINESS_PHONES = frozenset({"business phone", "business phone 2", "business fax", _COMPANY_MAIN_PHONE})
_NAME = ("title", "first name", "middle name", "last name", "suffix")


class OutlookReader(csv_rows.ContactReader):
    error = "the first line names no columns of Outlook in English, such as First Name and Mobile Phone"

    @classmethod
    def matches(cls, header: csv_rows.Header) -> bool:
        return header.has("first name", "last name", "company") and header.has(*_PHONES)

    def entries(self, cells: list[str]) -> list[tuple[str, str, str]]:
        contact = dict(zip(self.header.columns, cells, strict=False))
        phones = [phone for phone in _PHONES if contact.get(phone, "").strip()]
        return [(contact[phone], _name(contact, phone), _location(contact, phone)) for phone in phones]


def _name(contact: dict[str, str], phone: str) -> str:
    company = clean_text(contact.get("company", ""))
    name = clean_text(" ".join(contact.get(part, "") for part in _NAME))
    return (company or name) if phone == _COMPANY_MAIN_PHONE else (name or company)


def _location(contact: dict[str, str], phone: str) -> str:
    kinds = ("business", "home", "other") if phone in _BUSINESS_PHONES else ("home", "business", "other")
    for kind in kinds:
        country = contact.get(f"{kind} country/region") or contact.get(f"{kind} country", "")
        if found := base.location(contact.get(f"{kind} city", ""), contact.get(f"{kind} state", ""), country):
            return found
    return ""
