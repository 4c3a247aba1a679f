"""Outlook and Outlook.com exports: a number's name and location depend on its column."""

import csv
import io

import pytest

from contrib.file_formats import outlook_csv
from phonebook.imports.readers.base import NO_NAME_OR_LOCATION, NO_NUMBER, REPEATED_IN_CONTACT, ContactRow, Rejected

PHONES = (
    "Assistant's Phone,Business Fax,Business Phone,Business Phone 2,Callback,Car Phone,Company Main Phone,Home Fax,"
    "Home Phone,Home Phone 2,ISDN,Mobile Phone,Other Fax,Other Phone,Pager,Primary Phone,Radio Phone,TTY/TDD Phone,"
    "Telex"
)
HEADER = (
    "Title,First Name,Middle Name,Last Name,Suffix,Company,Department,Job Title,"
    + "".join(
        f"{of} Street,{of} Street 2,{of} City,{of} State,{of} Postal Code,{of} Country/Region,"
        for of in ("Business", "Home", "Other")
    )
    + PHONES
    + ",Anniversary,Categories,E-mail Address,Notes,Web Page"
)
OUTLOOK_COM_HEADER = (
    "First Name,Middle Name,Last Name,Title,Suffix,Nickname,E-mail Address,Home Phone,Business Phone,Mobile Phone,"
    "Company,Business City,Business State,Business Country,Notes"
)
JANE = {"First Name": "Jane", "Last Name": "Doe"}


def file(*contacts: dict[str, str], header: str = HEADER, delimiter: str = ",") -> str:
    written = io.StringIO(newline="")
    writer = csv.DictWriter(
        written, header.split(","), restval="", delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(contacts)
    return written.getvalue()


def read(text: str, region: str | None = None) -> list[ContactRow | Rejected]:
    return list(outlook_csv.OutlookReader.read(iter(io.StringIO(text)), region=region))


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_export(delimiter: str) -> None:
    text = file(
        {
            **JANE,
            "Title": "Dr.",
            "Suffix": "Jr.",
            "Company": "Example, Inc.; Ltd",
            "Business City": "New York",
            "Business State": "NY",
            "Home City": "Newark",
            "Home State": "NJ",
            "Home Country/Region": "United States of America",
            "Business Phone": "(212) 555-0142",
            "Company Main Phone": "+1 212 555-0100",
            "Mobile Phone": "+1 (212) 555-0143",
            "Home Phone": "1-201-555-0144",
            "Other Phone": "2125550143",
            "Assistant's Phone": "212 555 0145",
            "Telex": "212 555 0146",
            "Notes": 'Said "no"\n\nand; meant, it',
        },
        {**JANE, "E-mail Address": "jane@example.org"},
        {"Company": "Firm", "Business Phone": "+44 161 496 0142", "Home Phone": "12"},
        {"Pager": "+1 312 555 0142"},
        delimiter=delimiter,
    )
    assert read(text, "US") == [
        (2, 12125550143, "Dr. Jane Doe Jr.", "Newark, NJ"),
        (2, 12125550142, "Dr. Jane Doe Jr.", "New York, NY"),
        (2, 12125550100, "Example, Inc.; Ltd", "New York, NY"),
        (2, 12015550144, "Dr. Jane Doe Jr.", "Newark, NJ"),
        Rejected(2, REPEATED_IN_CONTACT, "1********43"),
        Rejected(5, NO_NUMBER),
        (6, 441614960142, "Firm", ""),
        Rejected(6, "number must have 7 to 15 digits"),
        Rejected(7, NO_NAME_OR_LOCATION, "1********42"),
    ]


@pytest.mark.parametrize("phone", sorted(set(PHONES.split(",")) - {"Assistant's Phone", "Telex"}))
def test_number_of_any_kind_is_read(phone: str) -> None:
    assert read(file({**JANE, phone: "+12125550142"})) == [(2, 12125550142, "Jane Doe", "")]


BUSINESS, HOME, OTHER = {"Business City": "Bern"}, {"Home City": "Hull"}, {"Other City": "Oslo"}


@pytest.mark.parametrize(
    ("phone", "addresses", "location"),
    [
        ("Business Phone", BUSINESS | HOME | OTHER, "Bern"),
        ("Company Main Phone", BUSINESS | HOME | OTHER, "Bern"),
        ("Business Phone", HOME | OTHER, "Hull"),
        ("Mobile Phone", BUSINESS | HOME | OTHER, "Hull"),
        ("Mobile Phone", BUSINESS | OTHER, "Bern"),
        ("Other Phone", OTHER, "Oslo"),
        ("Mobile Phone", {"Home Street": "1 High St", "Home Country/Region": "Norway"} | BUSINESS, "Norway"),
        ("Mobile Phone", {"Home Street": "1 High St"} | BUSINESS, "Bern"),
    ],
)
def test_location_fits_the_kind_of_number(phone: str, addresses: dict[str, str], location: str) -> None:
    assert read(file({**JANE, **addresses, phone: "+12125550142"})) == [(2, 12125550142, "Jane Doe", location)]


def test_outlook_com_columns_are_read() -> None:
    contact = {**JANE, "Title": "Dr.", "Business Country": "Norway", "Home Phone": "+12125550142"}
    assert read(file(contact, header=OUTLOOK_COM_HEADER)) == [(2, 12125550142, "Dr. Jane Doe", "Norway")]
