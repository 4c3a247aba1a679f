"""vCards written by these tests and by another library are read; and no text crashes the reader."""

from dataclasses import dataclass

import pytest
import vobject
from hypothesis import given, settings
from hypothesis import strategies as st

from core.text import clean_text
from phonebook.imports.readers import vcard
from phonebook.imports.readers.base import Rejected
from tests.phonebook.imports.readers.cards import NUMBER, read

pytestmark = pytest.mark.once

# --- round trips ----------------------------------------------------------------------------------------------------

SCRIPTS = ["🧑\u200d🚀", "محمد", "山田太郎", "ё" * 50]
SIGNS = [",", ";", "\n", ":", '"', "=", "=3D", " ", "\t", *SCRIPTS]


def texts(*, signs: list[str], without: str) -> st.SearchStrategy[str]:
    """Lone surrogates cannot be written, a carriage return ends a line, and U+FFFD stands for bytes that are lost."""
    plain = st.characters(exclude_categories=["Cs"], exclude_characters=f"\r\ufffd{without}")
    return st.lists(st.one_of(st.text(plain, max_size=40), st.sampled_from(signs)), max_size=6).map("".join)


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


def persons(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[Person]]:
    n, adr = st.tuples(*[texts] * 5), st.tuples(*[texts] * 7)
    return st.lists(st.builds(Person, fn=texts, n=n, org=texts, adr=adr, numbers=numbers), min_size=1, max_size=3)


people_of_30_and_40 = persons(texts(signs=[*SIGNS, "\\", "\\n"], without=""))
# 2.1 does not escape backslashes: before a separator they are ambiguous.
people_of_21 = persons(texts(signs=SIGNS, without="\\"))


def escaped(text: str) -> str:
    for plain, written in [("\\", "\\\\"), ("\n", "\\n"), (",", "\\,"), (";", "\\;")]:
        text = text.replace(plain, written)
    return text


def fold(line: str, *, inside_characters: bool) -> bytes:
    """At 75 bytes."""
    raw = line.encode()
    parts = []
    room = 75
    while len(raw) > room:
        cut = room
        while not inside_characters and raw[cut] & 0xC0 == 0x80:
            cut -= 1
        parts.append(raw[:cut])
        raw, room = raw[cut:], 74
    return b"\r\n ".join([*parts, raw]) + b"\r\n"


def write_4(person: Person, *, inside_characters: bool) -> bytes:
    lines = [
        *["BEGIN:VCARD", "VERSION:4.0"],
        f'FN;LANGUAGE="en";X-LABEL="{"a:;," * 40}":{escaped(person.fn)}',
        "N:" + ";".join(map(escaped, person.n)),
        f"ORG:{escaped(person.org)}",
        'ADR;TYPE="home,work";PREF=1:' + ";".join(map(escaped, person.adr)),
        *[f'TEL;VALUE=uri;TYPE="voice,cell":tel:+{n};ext=9' for n in person.numbers],
        "END:VCARD",
    ]
    return b"".join(fold(line, inside_characters=inside_characters) for line in lines)


def write_21(person: Person) -> bytes:
    """Like Android: every byte but letters as =XX, with soft breaks."""

    def quoted(head: str, *parts: str) -> bytes:
        head += ";CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:"
        written = []
        for part in parts:
            raw = part.replace(";", "\\;").encode()
            written += [chr(byte) if chr(byte).isalpha() and byte < 128 else f"={byte:02X}" for byte in raw] + [";"]
        lines = [head]
        for piece in written[:-1]:
            if len(lines[-1]) + len(piece) > 75:
                lines[-1] += "="
                lines.append("")
            lines[-1] += piece
        return "\r\n".join([*lines, ""]).encode()

    return b"".join(
        [
            b"BEGIN:VCARD\r\nVERSION:2.1\r\n",
            quoted("N", *person.n),
            quoted("FN", person.fn),
            *[f"TEL;CELL:+{number}\r\n".encode() for number in person.numbers],
            quoted("ORG", person.org, "Sales"),
            quoted("ADR;HOME;PREF", *person.adr),
            b"END:VCARD\r\n",
        ]
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
@given(people=people_of_30_and_40, inside_characters=st.booleans())
def test_written_cards_of_30_and_40_are_read(people: list[Person], inside_characters: bool) -> None:
    """Those of 3.0 are written by another library."""
    cards = [write_vobject(person) for person in people]
    cards += [write_4(person, inside_characters=inside_characters) for person in people]
    assert_read_back([*people, *people], b"".join(cards))


@settings(max_examples=60, deadline=None)
@given(people=people_of_21)
def test_written_cards_of_21_are_read(people: list[Person]) -> None:
    assert_read_back(people, b"".join(map(write_21, people)))


# --- fuzz -----------------------------------------------------------------------------------------------------------

FRAGMENTS = [
    *["BEGIN:VCARD", "END:VCARD", "VERSION:2.1", "VERSION:3.0", "FN:", "N:", "ORG:", "ADR:;;;", "TEL:+"],
    *["TEL", "TEL;VALUE=uri:tel:", ";phone-context=", ";QUOTED-PRINTABLE", ";ENCODING=B", ";CHARSET=", "UTF-16"],
    *["ISO-2022-JP", "utf-7", "Shift_JIS", "12125550142", "0142", "=", "=F6", "=00", "%", "%F6", '"', ":", ";", ","],
    *["\\", " ", "\t", "\udcf6", "\x1b$B", "\ufeff", "\0", "\r", "\x85", "\u2028", "+", "(", "ext"],
    "PHOTO;ENCODING=b:AA",
]
any_text = st.text(st.characters(exclude_characters="\n"), max_size=10)
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
