"""vCards with dirt of each kind, and the limits that hold whatever comes. The lines of faults are counted by hand."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from lookup.datasets import reading, vcard
from lookup.datasets.reading import Rejected
from tests.lookup.datasets.cards import MASKED, NUMBER, of_card, read, rows

pytestmark = pytest.mark.once


def test_dirt_of_each_kind() -> None:
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
        Rejected(12, vcard.NO_PROPERTY),
        (13, NUMBER, "Jane", ""),
        Rejected(16, vcard.NO_PROPERTY),
        Rejected(18, vcard.NO_PROPERTY),
        Rejected(21, vcard.OUTSIDE),
        Rejected(23, vcard.NO_PROPERTY),
        Rejected(24, reading.NO_NAME_OR_PLACE, "1********43"),
        Rejected(26, vcard.OUTSIDE),
        Rejected(27, vcard.NO_END),
    ]


@pytest.mark.parametrize("file", ["", "\n", " \n\t\n\n"])
def test_nothing_comes_of_nothing(file: str) -> None:
    assert read(file) == []


@pytest.mark.parametrize(
    "border", ["END:VCARDBEGIN:VCARD", "end:vcard\ufeffbegin:vcard", "END:VCARD\n\ufeffBEGIN:VCARD"]
)
def test_files_put_together_byte_by_byte_do_not_mix_two_people(border: str) -> None:
    cards = f"BEGIN:VCARD\nFN:June\nTEL:+12125550143\n{border}\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    at = 4 + border.count("\n") + 2
    assert read(cards) == [(3, 12125550143, "June", ""), (at, NUMBER, "Jane", "")]


@pytest.mark.parametrize("ending", ["=", "=  ", "=0D=0A="])
def test_a_value_that_breaks_off_does_not_mix_two_people(ending: str) -> None:
    note = f"NOTE;ENCODING=QUOTED-PRINTABLE:x{ending}"
    cards = f"BEGIN:VCARD\nFN:June\n{note}\nEND:VCARD\nBEGIN:VCARD\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    assert read(cards) == [(7, NUMBER, "Jane", "")]


@pytest.mark.parametrize("name", ["FN", "N", "ORG", "ADR", "TEL", "fn;CHARSET=UTF-8", 'item1.ADR;X="a:"'])
def test_a_property_that_is_too_long_is_not_used(name: str) -> None:
    long = [f"{name}:;;;;", *[" " + "x" * 1000] * 20, "FN:Jane", f"TEL:+{NUMBER}"]
    assert of_card(*long) == [Rejected(2, vcard.TOO_LONG), (24, NUMBER, "Jane", "")]


def test_a_picture_that_is_not_indented_ends_with_a_blank_line() -> None:
    assert of_card("PHOTO;BASE64:", "AAAA", "", "junk") == [Rejected(5, vcard.NO_PROPERTY)]


def test_a_long_value_of_soft_breaks_stays_too_long() -> None:
    value = ["FN;ENCODING=QUOTED-PRINTABLE:", *["x" * 70 + "="] * 300, "x"]
    value[0] += "="
    assert of_card(*value, f"TEL:+{NUMBER}") == [
        Rejected(2, vcard.TOO_LONG),
        Rejected(304, reading.NO_NAME_OR_PLACE, MASKED),
    ]


def test_a_property_that_nobody_uses_may_be_long() -> None:
    assert of_card("NOTE:" + "x" * 100_000, "PHOTO:", *[" " + "x" * 1000] * 20, "FN:Jane", f"TEL:+{NUMBER}") == [
        (25, NUMBER, "Jane", "")
    ]


def test_a_card_has_so_many_numbers_and_no_more() -> None:
    tels = [f"TEL:+1212555{line:04}" for line in range(vcard.MAX_ENTRIES + 2)]
    found = of_card("FN:Jane", *tels)
    assert rows(found[:-1]) == [(3 + n, 12125550000 + n, "Jane", "") for n in range(vcard.MAX_ENTRIES)]
    assert found[-1] == Rejected(3 + vcard.MAX_ENTRIES, vcard.TOO_MANY)


def test_a_number_again_is_none_too_many() -> None:
    tels = [f"TEL:+1212555{line:04}" for line in range(vcard.MAX_ENTRIES)]
    assert len(rows(of_card("FN:Jane", *tels, *tels))) == vcard.MAX_ENTRIES


@pytest.mark.parametrize(
    ("first", "line", "found"),
    [
        ("PHOTO;ENCODING=b:A", " " + "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("PHOTO;ENCODING=b:A", "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("NOTE;QUOTED-PRINTABLE:=", "A" * 76 + "=", None),
        ("VERSION:3.0", "TEL:1", None),
        ("VERSION:3.0", "TEL:+1212{n}", None),
        ("VERSION:3.0", "junk\n AAAA", None),
        ("VERSION:3.0", "FN:" + "x" * 76, None),
        ("VERSION:3.0", "AGENT:\nBEGIN:VCARD", [Rejected(1, vcard.NO_END)]),
    ],
    ids=["picture", "picture-not-indented", "quoted", "bad-numbers", "numbers", "junk", "names", "agents"],
)
def test_no_card_is_too_large_for_memory(first: str, line: str, found: list[Any] | None) -> None:
    def lines() -> Iterator[str]:
        yield "BEGIN:VCARD\n"
        yield f"{first}\n"
        for n in range(2_000_000, 2_030_000):
            yield from line.replace("{n}", str(n)).splitlines(keepends=True)
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
    assert len(outputs) <= vcard.MAX_ENTRIES + 1
    assert found is None or outputs == found


@pytest.mark.parametrize(
    "line",
    [
        'TEL;"' * 100_000,
        "TEL;" + '"' * 100_001 + ":",
        "TEL;" + '"";' * 30_000,
        'X;A="' + '":' * 100_000,
        "END" + " " * 100_000 + ":VCARD" + " " * 100_000 + "x",
        "\ufeff" * 100_000 + "BEGIN:",
        "N:" + "\\" * 16_001 + ";" * 300,
        "ADR:" + ";" * 16_000,
        "FN;QUOTED-PRINTABLE:" + "=" * 16_000,
        "TEL:+" + "(" * 16_000,
        "TEL:+1" + ";ext=" * 3_000,
        "TEL:tel:" + "%2" * 8_000 + ";" * 300,
        "A." * 100_000 + "TEL:",
        "\n ".join(["a picture without a head", *["A" * 74] * 20_000]),
        "\n ".join(['X;A="', *[":"] * 20_000]),
    ],
)
def test_no_line_takes_more_than_its_length(line: str) -> None:
    """A pattern that backtracks would never end."""
    assert len(of_card(line, f"TEL:+{NUMBER}", "FN:Jane")) <= 2
