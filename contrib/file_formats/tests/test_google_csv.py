"""Google Contacts exports: every number of a contact, with its name and location."""

import csv
import io

import pytest

from contrib.file_formats import google_csv
from phonebook.imports.readers.base import NO_NAME_OR_LOCATION, NO_NUMBER, REPEATED_IN_CONTACT, ContactRow, Rejected

HEADER = (
    "First Name,Middle Name,Last Name,Phonetic First Name,Phonetic Middle Name,Phonetic Last Name,Name Prefix,"
    "Name Suffix,Nickname,File As,Organization Name,Organization Title,Organization Department,Birthday,Notes,Photo,"
    "Labels,E-mail 1 - Label,E-mail 1 - Value,Phone 1 - Label,Phone 1 - Value,Phone 2 - Label,Phone 2 - Value,"
    "Address 1 - Label,Address 1 - Formatted,Address 1 - Street,Address 1 - City,Address 1 - PO Box,"
    "Address 1 - Region,Address 1 - Postal Code,Address 1 - Country,Address 1 - Extended Address,"
    "Address 2 - Label,Address 2 - Formatted,Address 2 - Street,Address 2 - City,Address 2 - PO Box,"
    "Address 2 - Region,Address 2 - Postal Code,Address 2 - Country,Address 2 - Extended Address"
)
FULL_NAME = {
    "Name_Prefix": "Dr.",
    "First_Name": "Jane",
    "Middle_Name": "Q.",
    "Last_Name": "Doe",
    "Name_Suffix": "Jr.",
}


def file(*contacts: dict[str, str]) -> str:
    written = io.StringIO(newline="")
    writer = csv.DictWriter(written, HEADER.split(","), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(contacts)
    return written.getvalue()


def read(text: str, region: str | None = None) -> list[ContactRow | Rejected]:
    return list(google_csv.GoogleReader.read(iter(io.StringIO(text)), region=region))


def one(**cells: str) -> tuple[str, str]:
    """Name and location of a contact's only number; the keywords are column names with `_` for spaces and dashes."""
    contact = {
        column: cells[key]
        for column in HEADER.split(",")
        if (key := column.replace(" - ", "_").replace(" ", "_")) in cells
    }
    assert len(contact) == len(cells)
    (row,) = read(file({"Phone 1 - Value": "+1 212-555-0142"} | contact))
    assert isinstance(row, tuple), row
    return row[2:]


def test_export() -> None:
    text = "\ufeff" + file(
        {
            "First Name": "Jane",
            "Last Name": "Doe",
            "Labels": "* myContacts ::: Choir",
            "Notes": 'Met in "Rome"\n\nrings, twice',
            "Phone 1 - Label": "Mobile",
            "Phone 1 - Value": "+1 212-555-0142",
            "Phone 2 - Label": "Work",
            "Phone 2 - Value": "+49 30 23125042 ::: (415) 555-0144 ::: +1 (212) 555-0142",
            "Address 1 - City": "New York",
            "Address 1 - Region": "NY",
            "Address 1 - Country": "US",
        },
        {"First Name": "Mail", "Last Name": "Only", "E-mail 1 - Value": "mail@example.org"},
        {"Organization Name": "Example Ltd", "Phone 1 - Value": "+44 161 496 0142", "Phone 2 - Value": "555-0143"},
        {"Phone 1 - Value": "+1 312-555-0143", "Phone 2 - Value": "1"},
        {"First Name": "Last", "Phone 2 - Value": "+13125550145"},
    )
    assert read(text, "US") == [
        (2, 12125550142, "Jane Doe", "New York, NY"),
        (2, 493023125042, "Jane Doe", "New York, NY"),
        (2, 14155550144, "Jane Doe", "New York, NY"),
        Rejected(2, REPEATED_IN_CONTACT, "1********42"),
        Rejected(5, NO_NUMBER),
        (6, 441614960142, "Example Ltd", ""),
        Rejected(6, "number does not fit its country's numbering plan", "55***43"),
        Rejected(7, NO_NAME_OR_LOCATION, "1********43"),
        Rejected(7, "number is no phone number"),
        (8, 13125550145, "Last", ""),
    ]


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        (FULL_NAME, "Dr. Jane Q. Doe Jr."),
        ({"Last_Name": "Doe", "Organization_Name": "Example Ltd"}, "Doe"),
        ({"Organization_Name": "Example Ltd ::: Other Ltd", "File_As": "Ex", "Nickname": "E"}, "Example Ltd"),
        ({"File_As": "Doe, Jane", "Nickname": "Janey"}, "Doe, Jane"),
        ({"Nickname": "Janey"}, "Janey"),
    ],
)
def test_name_is_the_contacts_name_or_the_next_best(cells: dict[str, str], name: str) -> None:
    assert one(**cells) == (name, "")


@pytest.mark.parametrize(
    ("cells", "location"),
    [
        ({"Address_1_City": "Berlin", "Address_1_Region": "Berlin", "Address_1_Country": "DE"}, "Berlin"),
        ({"Address_1_City": "Leeds", "Address_1_Country": "UK"}, "Leeds"),
        ({"Address_1_Region": "Bavaria"}, "Bavaria"),
        ({"Address_1_Country": "India"}, "India"),
        ({"Address_1_Street": "1 High St", "Address_1_Formatted": "1 High St", "Address_2_City": "York"}, "York"),
        ({"Address_1_City": "York", "Address_2_City": "Leeds"}, "York"),
        ({"Address_1_City": " ::: Leeds", "Address_1_Region": "::: England"}, "Leeds, England"),
    ],
)
def test_location_is_that_of_the_first_address_with_one(cells: dict[str, str], location: str) -> None:
    assert one(First_Name="Jane", **cells) == ("Jane", location)
