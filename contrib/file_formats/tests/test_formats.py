"""Each format is recognized by its first line, and by no other one."""

from datetime import date
from typing import Any

import pytest

from contrib.file_formats.tests import test_google_csv, test_outlook_csv
from contrib.file_formats.tests.test_regulators_csv import FCC, FCC_API, FTC
from phonebook.imports import COMPLAINT_FORMATS, CONTACT_FORMATS
from phonebook.imports.formats import recognize
from phonebook.imports.readers.base import UnreadableFile

GOOGLE, OUTLOOK = test_google_csv.HEADER, test_outlook_csv.HEADER
CONTACTS = {
    "vcard": ["BEGIN:VCARD"],
    "google": [
        GOOGLE, "\ufeff" + GOOGLE, "First Name,File As", "first name;phone 1 - value",
        ",".join(reversed(GOOGLE.split(","))),
    ],
    "outlook": [
        OUTLOOK, "\ufeff" + OUTLOOK, test_outlook_csv.OUTLOOK_COM_HEADER, OUTLOOK.replace(",", ";"), OUTLOOK.upper(),
    ],
    "csv": ["number,name,location", "Number;Name"],
}  # fmt: skip
COMPLAINTS = {
    "ftc": [FTC, "\ufeff" + FTC, FTC.lower()],
    "fcc": [FCC, FCC_API, "\ufeff" + FCC, FCC.upper(), "ID,Issue_Date,Caller_ID_Number"],
    "phoneblock": ['{"numbers":[', "\ufeff  {"],
    "csv": ["number,day,total", "source,total,day,number"],
}
READERS_OF_CONTACTS = [each.reader for each in CONTACT_FORMATS]
KNOWN = [(CONTACT_FORMATS, CONTACTS), (COMPLAINT_FORMATS, COMPLAINTS)]
LINES = [(known, name, line) for known, lines in KNOWN for name, of_format in lines.items() for line in of_format]


@pytest.mark.parametrize(("known", "name", "line"), LINES)
def test_first_line_is_recognized_by_one_format(known: Any, name: str, line: str) -> None:
    assert [each.name for each in known if each.reader.recognizes([line])] == [name]


def test_words_of_columns_in_a_later_line_tell_no_format() -> None:
    lines = ["a title", "number,name,location", "12025550142,Kontakt,Mobil", "Phone 1 - Value,Name,Name"]
    assert recognize(CONTACT_FORMATS, lines).name == "csv"
    assert recognize(CONTACT_FORMATS, ["Name;Mobil", "BEGIN:VCARD"]).name == "outlook"


@pytest.mark.parametrize(
    ("known", "line"),
    [
        *[
            (CONTACT_FORMATS, line)
            for line in ("", "number,day,total", "First Name,Last Name", "Vorname,Nachname", "{")
        ],
        *[(COMPLAINT_FORMATS, line) for line in ("", "[", "number,name", "Company_Phone_Number", "issue_date,id")],
    ],
)
def test_other_first_line_is_refused(known: Any, line: str) -> None:
    with pytest.raises(UnreadableFile):
        recognize(known, [line])


@pytest.mark.parametrize("reader", [each.reader for known, _ in KNOWN for each in known if each.name != "vcard"])
def test_chosen_format_refuses_another_header(reader: Any) -> None:
    options = {"region": None} if reader in READERS_OF_CONTACTS else {"source": "x", "today": date(2026, 3, 6)}
    for text in ("", "\n \n", "\x00\udcff", "a,b,c\n1,2,3\n", "12125550142,Jane\n", '"number,name\n'):
        with pytest.raises(UnreadableFile):
            list(reader.read(iter(text.splitlines(keepends=True)), **options))
