"""Malformed vCards, and limits on memory and time. The expected line numbers are counted by hand."""

import tracemalloc
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from contrib.file_formats import vcard
from contrib.file_formats.tests.cards import NUMBER, of_card, read
from phonebook.imports.readers import base
from phonebook.imports.readers.base import Rejected

pytestmark = pytest.mark.once


def test_malformed_lines_are_rejected() -> None:
    file = f"""\
hello
  there

world
BEGIN:VCARD
FN:June
TEL:+12125550199
junk
BEGIN:VCARD
VERSION:9.9
 no colon in what continues
junk
TEL:+{NUMBER}
FN:Jane
BEGIN:VCALENDAR
also junk

 and continued
END:VCALENDAR
END:VCARD
END:VCARD
BEGIN:VCARD
 nothing to continue
TEL:+12125550143
END:VCARD
FN:Nobody
BEGIN:VCARD
FN:June
TEL:+12125550199
"""
    assert read(file) == [
        Rejected(1, vcard.OUTSIDE),
        Rejected(5, vcard.NO_END),
        (7, 12125550199, "June", ""),
        Rejected(8, vcard.NO_PROPERTY),
        Rejected(12, vcard.NO_PROPERTY),
        (13, NUMBER, "Jane", ""),
        Rejected(16, vcard.NO_PROPERTY),
        Rejected(18, vcard.NO_PROPERTY),
        Rejected(21, vcard.OUTSIDE),
        Rejected(23, vcard.NO_PROPERTY),
        Rejected(24, base.NO_NAME_OR_LOCATION, "1********43"),
        Rejected(26, vcard.OUTSIDE),
        Rejected(27, vcard.NO_END),
        (29, 12125550199, "June", ""),
    ]


def test_last_line_of_a_file_that_was_cut_off_is_not_used() -> None:
    lines = ["BEGIN:VCARD\n", "FN:Jane\n", f"TEL:+{NUMBER}\n", "TEL:+1212555014"]
    assert list(vcard.read(iter(lines), region=None)) == [Rejected(1, vcard.NO_END), (3, NUMBER, "Jane", "")]


def test_note_with_encoded_line_breaks_is_no_property() -> None:
    note = "NOTE;ENCODING=QUOTED-PRINTABLE:call=0D=0A=\nTEL:+12125550199\n"
    assert read(f"BEGIN:VCARD\nVERSION:2.1\nFN:Jane\n{note}TEL:+{NUMBER}\nEND:VCARD\n") == [(6, NUMBER, "Jane", "")]


@pytest.mark.parametrize(
    "border", ["END:VCARDBEGIN:VCARD", "end:vcard\ufeffbegin:vcard", "END:VCARD\n\ufeffBEGIN:VCARD"]
)
def test_concatenated_files_do_not_mix_two_people(border: str) -> None:
    cards = f"BEGIN:VCARD\nFN:June\nTEL:+12125550143\n{border}\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    at = 4 + border.count("\n") + 2
    assert read(cards) == [(3, 12125550143, "June", ""), (at, NUMBER, "Jane", "")]


@pytest.mark.parametrize("ending", ["=", "=  ", "=0D=0A="])
def test_value_ending_with_a_soft_break_does_not_mix_people(ending: str) -> None:
    note = f"NOTE;ENCODING=QUOTED-PRINTABLE:x{ending}"
    cards = f"BEGIN:VCARD\nFN:June\n{note}\nEND:VCARD\nBEGIN:VCARD\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    assert read(cards) == [Rejected(1, base.NO_NUMBER), (7, NUMBER, "Jane", "")]


@pytest.mark.parametrize("name", ["FN", "N", "ORG", "ADR", "TEL", "fn;CHARSET=UTF-8", 'item1.ADR;X="a:"'])
def test_property_that_is_too_long_is_rejected(name: str) -> None:
    long = [f"{name}:;;;;", *[" " + "x" * 1000] * 20, "FN:Jane", f"TEL:+{NUMBER}"]
    assert of_card(*long) == [Rejected(2, vcard.TOO_LONG), (24, NUMBER, "Jane", "")]


@pytest.mark.parametrize(
    ("first", "line", "found"),
    [
        ("PHOTO;ENCODING=b:A", " " + "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("PHOTO;ENCODING=b:A", "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("NOTE;QUOTED-PRINTABLE:=", "A" * 76 + "=", None),
        ("VERSION:3.0", "FN:" + "x" * 76, None),
    ],
    ids=["picture", "picture-not-indented", "quoted", "names"],
)
def test_large_property_takes_little_memory(first: str, line: str, found: list[Any] | None) -> None:
    def lines() -> Iterator[str]:
        yield "BEGIN:VCARD\n"
        yield f"{first}\n"
        yield from repeat(f"{line}\n", 30_000)
        yield f"TEL:+{NUMBER}\n"
        yield "FN:Jane\n"
        yield "END:VCARD\n"

    tracemalloc.start()
    try:
        outputs = list(vcard.read(lines(), region=None))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert found is None or outputs == found


@pytest.mark.parametrize(
    "line",
    [
        "TEL;" + '"' * 100_001 + ":",
        "TEL;" + '"";' * 30_000,
        'X;A="' + '":' * 100_000,
        "END" + " " * 100_000 + ":VCARD" + " " * 100_000 + "x",
        "\ufeff" * 100_000 + "BEGIN:",
        "N:" + "\\" * 16_001 + ";" * 300,
        "TEL:tel:" + "%2" * 8_000 + ";" * 300,
        "A." * 100_000 + "TEL:",
        "\n ".join(["a picture without a head", *["A" * 74] * 20_000]),
        "\n ".join(['X;A="', *[":"] * 20_000]),
    ],
)
def test_no_pattern_backtracks(line: str) -> None:
    """Otherwise this would not end."""
    assert len(of_card(line, f"TEL:+{NUMBER}", "FN:Jane")) <= 2
