"""The formats of files that can be imported, and which one a file has."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lookup.datasets import fcc_csv, ftc_csv, google_csv, outlook_csv, phoneblock, plain_csv, vcard
from lookup.datasets.reading import ComplaintReader, ContactReader, Unreadable

Reader = TypeVar("Reader", ContactReader, ComplaintReader)


@dataclass(frozen=True, slots=True)
class Format(Generic[Reader]):
    """`title`: for people. `recognises`: by the first line that is not blank."""

    title: str
    recognises: Callable[[str], bool]
    read: Reader
    #: Complaints: whose they are, unless the operator says otherwise.
    source: str = ""
    #: Numbers that are complained about, instead of what was complained on a day.
    is_list: bool = False
    #: Complaints: the columns by which two rows are one; of none, each counts.
    identity: str = ""


TICKET = "source, ticket"
NUMBERS_DAY = "number, source, day"

CONTACTS: Mapping[str, Format[ContactReader]] = {
    "vcard": Format("vCard", vcard.recognises, vcard.read),
    "google": Format("Google Contacts CSV", google_csv.recognises, google_csv.read),
    "outlook": Format("Outlook CSV", outlook_csv.recognises, outlook_csv.read),
    "csv": Format("CSV with number, name, location", plain_csv.recognises_contacts, plain_csv.read_contacts),
}
COMPLAINTS: Mapping[str, Format[ComplaintReader]] = {
    "ftc": Format("FTC Do Not Call CSV", ftc_csv.recognises, ftc_csv.read, ftc_csv.SOURCE),
    "fcc": Format("FCC unwanted calls CSV", fcc_csv.recognises, fcc_csv.read, fcc_csv.SOURCE, identity=TICKET),
    "phoneblock": Format(
        "PhoneBlock block list JSON", phoneblock.recognises, phoneblock.read, phoneblock.SOURCE, is_list=True
    ),
    "csv": Format(
        "CSV with number, day, total",
        plain_csv.recognises_complaints,
        plain_csv.read_complaints,
        "import",
        identity=NUMBERS_DAY,
    ),
}


def recognise(formats: Mapping[str, Format[Reader]], first_line: str) -> str:
    """The name of the format of a file with this first line. Raises Unreadable."""
    found = next((name for name, format_ in formats.items() if format_.recognises(first_line)), None)
    if found:
        return found
    if not first_line:
        raise Unreadable("the file is empty")
    if other := next((what for start, what in _SOMETHING_ELSE.items() if first_line.startswith(start)), None):
        raise Unreadable(f"this is {other}")
    raise Unreadable(f"the first line is that of no known format ({', '.join(formats)}); --format says which one it is")


_SOMETHING_ELSE = {
    "<": "a web page, perhaps an error message that was saved instead of the file",
    "%PDF": "a PDF",
    "PK\x03\x04": "a zip file or a spreadsheet: unpack it, or save it as CSV",
}
