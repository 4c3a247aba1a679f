"""The plain CSV formats: what is read, what is rejected, and why."""

import io
from datetime import date
from typing import Any

import pytest

from phonebook.imports.readers import base
from phonebook.imports.readers.base import Rejected
from phonebook.imports.readers.plain_csv import PlainComplaintReader, PlainContactReader

TODAY = date(2026, 3, 1)
NUMBER = "12125550142"


def lines(text: str | bytes) -> io.TextIOWrapper:
    raw = text if isinstance(text, bytes) else text.encode()
    return io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8-sig", errors="surrogateescape")


def contacts(text: str | bytes, region: str | None = None) -> list[Any]:
    return list(PlainContactReader.read(lines(text), region=region))


def complaints(text: str, source: str = "import") -> list[Any]:
    return list(PlainComplaintReader.read(lines(text), source=source, today=TODAY))


def rejected(rows: list[Any]) -> Rejected:
    (row,) = rows
    assert isinstance(row, Rejected), row
    return row


def values(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Without their lines."""
    assert all(isinstance(row, tuple) for row in rows), rows
    return [row[1:] for row in rows]


@pytest.mark.parametrize(
    ("header", "cells"),
    [("NUMBER, Name ,Location", f"{NUMBER},Jane,Here"), ("note,location,x,number,name", f"z,Here,y,{NUMBER},Jane")],
)
def test_columns_are_found_by_name(header: str, cells: str) -> None:
    assert values(contacts(f"{header}\n{cells}\n")) == [(int(NUMBER), "Jane", "Here")]


@pytest.mark.parametrize(
    "cell", [NUMBER, f"+{NUMBER}", "+1 212 555-0142", "+1 (212) 555.0142", " 1 212\u00a0555 0142 ", "(+1) 212-555-0142"]
)
def test_number_is_read_as_people_write_it(cell: str) -> None:
    assert values(contacts(f"number,name\n{cell},Jane\n")) == [(int(NUMBER), "Jane", "")]


@pytest.mark.parametrize(
    "cell",
    ["", "abc", "0049 30 23125555", "2125550142", "1.2125550142E+10", "9" * 100_000, "(212) 555-0142"],
)
def test_invalid_number_is_rejected_and_not_printed(cell: str) -> None:
    row = rejected(contacts(f"number,name\n{cell},Jane\n"))
    assert (row.line, row.number) in ((2, None), (2, "212*****42"))
    assert "number" in row.reason
    assert not cell or cell not in row.reason


def test_number_without_country_code_needs_the_region() -> None:
    text = "number,name\n2125550142,Jane\n(212) 555-0143,John\n+49 30 23125042,Max\n"
    assert [row[1] for row in contacts(text, "US")] == [12125550142, 12125550143, 493023125042]
    assert [type(row) for row in contacts(text)] == [Rejected, Rejected, tuple]


def test_contact_needs_a_name_or_a_location() -> None:
    assert rejected(contacts(f"number,name,location\n{NUMBER}, \u0000 ,\n")) == Rejected(
        2, base.NO_NAME_OR_LOCATION, "1********42"
    )
    assert rejected(contacts(f"number\n{NUMBER}\n")).reason == base.NO_NAME_OR_LOCATION


def test_complaint_has_its_own_source_or_the_files() -> None:
    text = f"total,day,source,number,robocalls\n3,2026-02-27,ftc,{NUMBER},2\n1,20260228,,{NUMBER},\n"
    assert values(complaints(text)) == [
        (int(NUMBER), "ftc", date(2026, 2, 27), 3, 2, "", "="),
        (int(NUMBER), "import", date(2026, 2, 28), 1, 0, "", "="),
    ]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2026-03-03,1,,", "future"),
        ("yesterday,1,,", "no date"),
        (",1,,", "no date"),
        ("2026-02-28,,,", "total must"),
        ("2026-02-28,-1,,", "total must"),
        ("2026-02-28,2147483648,,", "total must"),
        ("2026-02-28,٣,,", "total must"),
        ("2026-02-28,1,x,", "robocalls must"),
        ("2026-02-28,1,2,", "more robocalls"),
        ("2026-02-28,1,," + "s" * 33, "source must"),
        ("2026-02-28,1,,\x00\x01", "source must"),
    ],
)
def test_invalid_complaint_is_rejected(row: str, says: str) -> None:
    row_ = rejected(complaints(f"number,day,total,robocalls,source\n{NUMBER},{row}\n"))
    assert says in row_.reason
    assert row_.number == "1********42"


@pytest.mark.parametrize("day", ["2026-03-01", "2026-03-02", "1970-01-01", "0001-01-01"])
def test_days_up_to_tomorrow_are_accepted(day: str) -> None:
    assert len(values(complaints(f"number,day,total\n{NUMBER},{day},2147483647\n"))) == 1
