"""The service's own formats are recognized by their first line; what add-ons register is preferred."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from phonebook.imports import COMPLAINT_FORMATS, CONTACT_FORMATS, Format
from phonebook.imports.formats import recognize
from phonebook.imports.readers.base import UnreadableFile

CONTACTS, COMPLAINTS = (
    [each for each in known if each.name == "csv"] for known in (CONTACT_FORMATS, COMPLAINT_FORMATS)
)


class Titled:
    """A reader of files that have `title` in a line."""

    @staticmethod
    def recognizes(begin: list[str]) -> int:
        return begin.index("title") + 1 if "title" in begin else 0

    @staticmethod
    def read(lines: Iterator[str], **options: Any) -> Iterator[Any]:
        yield from ()


@pytest.mark.parametrize(
    ("known", "line"),
    [
        *((CONTACTS, line) for line in ("number,name,location", "Number;Name")),
        *((COMPLAINTS, line) for line in ("number,day,total", "source,total,day,number")),
    ],
)
def test_first_line_of_the_own_formats_is_recognized(known: list[Format], line: str) -> None:
    assert recognize(known, [line]).name == "csv"


@pytest.mark.parametrize(
    ("known", "line"),
    [
        *((CONTACTS, line) for line in ("", "number,day,total", "Vorname,Nachname", "BEGIN:VCARD", "<phonebook>", "{")),
        *((COMPLAINTS, line) for line in ("", "[", "number,name", "Company_Phone_Number", '{"numbers":[')),
    ],
)
def test_other_first_line_is_refused(known: list[Format], line: str) -> None:
    with pytest.raises(UnreadableFile):
        recognize(known, [line])


def test_file_of_another_product_is_told_the_known_formats() -> None:
    with pytest.raises(UnreadableFile) as raised:
        recognize(CONTACTS, ["BEGIN:VCARD", "FN:Jane"])
    assert str(raised.value) == (
        "its first lines have no known format. Correct them, or choose the format: "
        "csv (CSV with number, name, location)"
    )


def test_format_of_the_earliest_line_is_used() -> None:
    known = [Format("titled", "with a title", f"{__name__}.Titled"), *CONTACTS]
    assert recognize(known, ["title", "number,name"]).name == "titled"
    assert recognize(known, ["number,name", "title"]).name == "csv"


def test_reader_may_be_a_module_or_a_class() -> None:
    assert Format("titled", "", f"{__name__}.Titled").reader is Titled
    assert Format("module", "", __name__).reader.Titled is Titled


def test_own_formats_follow_those_of_add_ons() -> None:
    assert [[each.name for each in known][-1] for known in (CONTACT_FORMATS, COMPLAINT_FORMATS)] == ["csv", "csv"]


@pytest.mark.parametrize("known", [CONTACTS, COMPLAINTS])
def test_chosen_format_refuses_another_header(known: list[Format]) -> None:
    options = {"region": None} if known is CONTACTS else {"source": "x", "today": date(2026, 3, 6)}
    for text in ("", "\n \n", "\x00\udcff", "a,b,c\n1,2,3\n", "12125550142,Jane\n", '"number,name\n'):
        with pytest.raises(UnreadableFile):
            list(known[0].reader.read(iter(text.splitlines(keepends=True)), **options))
