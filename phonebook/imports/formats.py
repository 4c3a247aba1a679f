"""The file formats that can be imported, and how they are recognized."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phonebook.imports.readers import fritzbox, phoneblock, vcard
from phonebook.imports.readers.base import BLANK, NOT_UTF8, UNDECODED, UnreadableFile
from phonebook.imports.readers.fcc_csv import FCCReader
from phonebook.imports.readers.ftc_csv import FTCReader
from phonebook.imports.readers.google_csv import GoogleReader
from phonebook.imports.readers.outlook_csv import OutlookReader
from phonebook.imports.readers.plain_csv import PlainComplaintReader, PlainContactReader


@dataclass(frozen=True, slots=True)
class Format:
    """`title`: for people. `reader`: has `recognizes`, which returns by which of a file's first lines
    (TextFile.begin) it has this format, from 1, and 0 if it has not; and `read`, which yields the rows of the lines."""

    title: str
    reader: Any
    #: Complaints: the source, unless the operator names another.
    source: str = ""
    #: Complaints: a block list, which is about numbers instead of days.
    is_list: bool = False


CONTACTS: Mapping[str, Format] = {
    "vcard": Format("vCard", vcard),
    "google": Format("Google Contacts CSV", GoogleReader),
    "outlook": Format("CSV of Outlook, Thunderbird and others", OutlookReader),
    "fritzbox": Format("FRITZ!Box phone book XML", fritzbox),
    "csv": Format("CSV with number, name, location", PlainContactReader),
}
COMPLAINTS: Mapping[str, Format] = {
    "ftc": Format("FTC Do Not Call CSV", FTCReader, "ftc"),
    "fcc": Format("FCC unwanted calls CSV", FCCReader, "fcc"),
    "phoneblock": Format("PhoneBlock block list JSON", phoneblock, "phoneblock", is_list=True),
    "csv": Format("CSV with number, day, total", PlainComplaintReader, "import"),
}


def recognize(formats: Mapping[str, Format], begin: Sequence[str]) -> str:
    """The name of the format of a file with these first lines. Raises UnreadableFile."""
    lines = {name: format_.reader.recognizes(begin) for name, format_ in formats.items()}
    if found := {name: line for name, line in lines.items() if line}:
        return min(found, key=lambda name: found[name])  # a later line may have such words too
    if not "".join(begin).strip(BLANK):
        raise UnreadableFile("the file is empty")
    for start, what in _NOT_IMPORTABLE.items():
        if begin[0].lstrip(BLANK).startswith(start):
            raise UnreadableFile(f"this is {what}")
    if any(map(UNDECODED.search, begin)):
        raise UnreadableFile(f"the file is {NOT_UTF8}")
    known = ", ".join(f"{name} ({each.title})" for name, each in formats.items())
    raise UnreadableFile(f"its first lines have no known format. Correct them, or choose the format: {known}")


_NOT_IMPORTABLE = {
    "<": "a web page or other XML, perhaps an error message that was saved instead of the file",
    "%PDF": "a PDF",
    "PK\x03\x04": "a zip file or a spreadsheet: unpack it, or save it as CSV",
}
