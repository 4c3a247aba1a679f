"""vCards that another library has written are read; and no text crashes the reader."""

from dataclasses import dataclass

import pytest
import vobject
from hypothesis import given, settings
from hypothesis import strategies as st

from contrib.file_formats import vcard
from contrib.file_formats.tests.cards import NUMBER, read
from core.text import clean_text
from phonebook.imports.readers.base import Rejected

pytestmark = pytest.mark.once

# --- round trips ----------------------------------------------------------------------------------------------------

SIGNS = [",", ";", "\n", ":", '"', "=", "=3D", " ", "\t", "\\", "\\n", "🧑\u200d🚀", "محمد", "山田太郎", "ё" * 50]


# Lone surrogates cannot be written, a carriage return ends a line, and U+FFFD stands for bytes that are lost.
plain = st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufffd")
texts = st.lists(st.one_of(st.text(plain, max_size=40), st.sampled_from(SIGNS)), max_size=6).map("".join)
numbers = st.lists(st.integers(12125550100, 12125550199), min_size=1, max_size=3, unique=True)


@dataclass(frozen=True)
class Person:
    fn: str
    n: tuple[str, ...]
    org: str
    adr: tuple[str, ...]
    numbers: list[int]

    def expected(self) -> tuple[str, str]:
        family, given_name, additional, prefix, suffix = self.n
        name = clean_text(self.fn) or clean_text(f"{prefix} {given_name} {additional} {family} {suffix}")
        locality, area, country = (clean_text(self.adr[n]) for n in (3, 4, 6))
        places = [locality, *([area] if area != locality else [])]
        return name or clean_text(self.org), clean_text(", ".join(filter(None, places))) or country


persons = st.builds(
    Person, fn=texts, n=st.tuples(*[texts] * 5), org=texts, adr=st.tuples(*[texts] * 7), numbers=numbers
)


def assert_read_back(people: list[Person], file: bytes) -> None:
    expected = []
    for person in people:
        name, location = person.expected()
        expected += [(number, name, location) if name or location else None for number in person.numbers]
    found = read(file.replace(b"\r\n", b"\n"))
    assert [None if isinstance(row, Rejected) else row[1:] for row in found] == expected
    lines = file.split(b"\r\n")
    for row in found:
        line, shown = (row.line, "") if isinstance(row, Rejected) else (row[0], str(row[1]))
        assert b"TEL" in lines[line - 1]
        assert shown.encode() in lines[line - 1]


def write_vobject(person: Person) -> bytes:
    card = vobject.vCard()
    for number in person.numbers:
        tel = card.add("tel")
        tel.value, tel.type_param = f"+{number}", ["CELL", "pref"]
    family, given_name, additional, prefix, suffix = person.n
    card.add("n").value = vobject.vcard.Name(family, given_name, additional, prefix, suffix)
    card.add("fn").value = person.fn
    card.add("org").value = [person.org, "Sales"]
    box, extended, street, city, region, code, country = person.adr
    card.add("adr").value = vobject.vcard.Address(street, city, region, code, country, box, extended)
    return str(card.serialize()).encode()


@settings(max_examples=100, deadline=None)
@given(people=st.lists(persons, min_size=1, max_size=3))
def test_cards_of_another_library_are_read(people: list[Person]) -> None:
    assert_read_back(people, b"".join(map(write_vobject, people)))


# --- fuzz -----------------------------------------------------------------------------------------------------------

FRAGMENTS = [
    *["BEGIN:VCARD", "END:VCARD", "VERSION:2.1", "VERSION:3.0", "FN:", "N:", "ORG:", "ADR:;;;", "TEL:+"],
    *["TEL", "TEL;VALUE=uri:tel:", ";phone-context=", ";QUOTED-PRINTABLE", ";ENCODING=B", ";CHARSET=", "UTF-16"],
    *["ISO-2022-JP", "utf-7", "Shift_JIS", "12125550142", "0142", "=", "=F6", "=00", "%", "%F6", '"', ":", ";", ","],
    *["\\", " ", "\t", "\udcf6", "\x1b$B", "\ufeff", "\0", "\r", "\x85", "\u2028", "+", "(", "ext"],
    "PHOTO;ENCODING=b:AA",
]
any_text = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=10)
any_line = st.one_of(
    st.sampled_from(["BEGIN:VCARD", "END:VCARD", "FN:Jane", f"TEL:+{NUMBER}", "", " "]),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), any_text), max_size=8).map("".join),
)


@settings(max_examples=400, deadline=None)
@given(lines=st.lists(any_line, max_size=25), region=st.sampled_from([None, "US", "DE"]))
def test_no_text_crashes_the_reader(lines: list[str], region: str | None) -> None:
    for first in ([], ["BEGIN:VCARD", "FN:Jane"]):
        ours = [*first, *lines]
        found = list(vcard.read((f"{line}\n" for line in ours), region=region))
        at = [row.line if isinstance(row, Rejected) else row[0] for row in found]
        # In the order of the file, and each line once.
        assert at == sorted(set(at))
        assert not at or (at[0] >= 1 and at[-1] <= len(ours))
        for row in found:
            if isinstance(row, Rejected):
                assert row.number is None or "*" in row.number
            else:
                assert row[2] or row[3]
                assert (row[2], row[3]) == (clean_text(row[2]), clean_text(row[3]))
