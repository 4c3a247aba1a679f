"""The plain CSV formats: what is taken, what is rejected, and that no file can crash the reader."""

import io
from datetime import date
from typing import Any

import pytest

from lookup.datasets.plain_csv import InvalidSource, Rejected, Row, Unreadable, read_complaints, read_contacts

TODAY = date(2026, 3, 1)
NUMBER = "12125550142"


def contacts(text: str | bytes) -> list[Row | Rejected]:
    return list(read_contacts(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def complaints(text: str, source: str = "import") -> list[Row | Rejected]:
    return list(read_complaints(io.BytesIO(text.encode()), source=source, today=TODAY))


def rejected(lines: list[Row | Rejected]) -> Rejected:
    (line,) = lines
    assert isinstance(line, Rejected), line
    return line


def values(lines: list[Row | Rejected]) -> list[tuple[Any, ...]]:
    assert all(isinstance(line, Row) for line in lines), lines
    return [line.values for line in lines if isinstance(line, Row)]


@pytest.mark.parametrize(
    "header",
    ["number,name,location", "NUMBER, Name ,Location", "\ufeffnumber,name,location", '"number","name","location"'],
)
def test_columns_are_known_by_name(header: str) -> None:
    assert values(contacts(f"{header}\n{NUMBER},Jane,Here\n")) == [(int(NUMBER), "Jane", "Here")]


def test_columns_come_in_any_order_beside_others() -> None:
    assert values(contacts(f"note,location,x,number\nz,Here,y,{NUMBER}\n")) == [(int(NUMBER), "", "Here")]


@pytest.mark.parametrize(
    "cell", [NUMBER, f"+{NUMBER}", "+1 212 555-0142", "+1 (212) 555.0142", " 1 212\u00a0555 0142 ", "(+1) 212-555-0142"]
)
def test_a_number_is_taken_as_people_write_it(cell: str) -> None:
    assert values(contacts(f"number,name\n{cell},Jane\n")) == [(int(NUMBER), "Jane", "")]


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "abc",
        "0049 30 23125555",
        "030 23125555",
        "+49 (0)30 23125555",
        "+49 (0) 30 23125555",
        "1.2125550142E+10",
        "1212555\x000142",
        "12125550142;ext=9",
        "123456",
        "1234567890123456",
        "9" * 100_000,
        "٤٩٣٠٢٣١٢٥٥٥٥",
        "++12125550142",
        "12125550142+",
        "−12125550142",
    ],
)
def test_what_is_no_number_is_rejected_and_never_repeated(cell: str) -> None:
    line = rejected(contacts(f"number,name\n{cell},Jane\n"))
    assert (line.line, line.number) == (2, None)
    assert line.reason.startswith("number ")
    assert not cell or cell not in line.reason


def test_a_bad_line_shows_its_number_masked_and_never_its_name() -> None:
    line = rejected(contacts(f"number,name,location\n{NUMBER},Jane,Here,or there\n"))
    assert line.number == "1********42"
    assert "Jane" not in line.reason
    assert "comma" in line.reason


def test_a_contact_needs_a_name_or_a_place() -> None:
    assert "neither" in rejected(contacts(f"number,name,location\n{NUMBER}, \u0000 ,\n")).reason
    assert "neither" in rejected(contacts(f"number\n{NUMBER}\n")).reason


def test_text_is_one_printable_line_of_at_most_200_characters() -> None:
    text = f'number,name\n{NUMBER},"  Jane \x00\tDoe\x1b {"x" * 300}"\n'
    ((_, name, _),) = values(contacts(text))
    assert name.startswith("Jane Doe x")
    assert len(name) == 200


def test_a_second_line_for_a_number_is_rejected_and_the_first_one_stands() -> None:
    good, bad = contacts(f"number,name\n{NUMBER},Jane\n+1 212 555 0142,John\n")
    assert good == Row(2, (int(NUMBER), "Jane", ""))
    assert bad == Rejected(3, "the same number as line 2", "1********42")


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    lines = contacts(f"number,name\n\n{NUMBER},Jane\n\nx,John\r\ny,Jack\n")
    assert [line.line for line in lines] == [3, 5, 6]


def test_empty_lines_and_a_missing_last_newline_are_no_lines() -> None:
    assert len(contacts(f"number,name\n\r\n,\n{NUMBER},Jane")) == 1
    assert contacts("number,name\n") == contacts("number,name") == []


def test_a_cell_beyond_the_csv_modules_limit_costs_its_line_only() -> None:
    bad, good = contacts(f"number,name\n12125550100,{'x' * 200_000}\n{NUMBER},Jane\n")
    assert isinstance(bad, Rejected)
    assert bad.line == 2
    assert isinstance(good, Row)


def test_two_stray_quotes_do_not_make_one_person_of_all_between() -> None:
    lines = contacts('number,name\n12125550100,"Foo\n12125550101,Bar\n12125550102,Baz"\n')
    assert [type(line) for line in lines] == [Rejected, Row, Row]
    assert [line.values[1] for line in lines if isinstance(line, Row)] == ["Bar", 'Baz"']


def test_a_quote_that_is_never_closed_swallows_no_line_unseen() -> None:
    good, bad, last = contacts(f'number,name\n{NUMBER},Jane\n12125550100,"John\n12125550101,Jack\n')
    assert isinstance(good, Row)
    assert bad == Rejected(3, "no CSV: unexpected end of data")
    assert last == Row(4, (12125550101, "Jack", ""))
    bad, good = contacts(f'number,name\n12125550100,"John"ny\n{NUMBER},Jane\n')
    assert isinstance(bad, Rejected)
    assert isinstance(good, Row)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "empty"),
        (b"number,name\n12125550142,J\xe4ne\n", "line 2 is not UTF-8"),
        ("number,name\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b"\x00\xff", "line 1 is not UTF-8"),
        (b"number;name\n", "missing: number"),
        (b"12125550142,Jane\n", "missing: number"),
        (b"number,name,Number\n", "twice"),
        (b"x" * 200_000, "line 1 is no CSV"),
        (b"number,name\r12125550142,Jane\r", "line 1 is no CSV"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_its_first_row(text: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        read_contacts(io.BytesIO(text))


def test_a_bad_byte_at_the_end_is_found_before_the_first_row_is_handed_out() -> None:
    with pytest.raises(Unreadable, match="line 3 "):
        read_contacts(io.BytesIO(f"number,name\n{NUMBER},Jane\n".encode() + b"\xff\n"))


def test_a_complaint_line_has_its_own_source_or_the_files() -> None:
    text = f"total,day,source,number,robocalls\n3,2026-02-27,ftc,{NUMBER},2\n1,20260228,,{NUMBER},\n"
    assert values(complaints(text)) == [
        (int(NUMBER), "ftc", date(2026, 2, 27), 3, 2),
        (int(NUMBER), "import", date(2026, 2, 28), 1, 0),
    ]


@pytest.mark.parametrize("missing", ["number", "day", "total"])
def test_complaints_need_their_columns(missing: str) -> None:
    header = ",".join(column for column in ("number", "day", "total") if column != missing)
    with pytest.raises(Unreadable, match=f"missing: {missing}"):
        complaints(header + "\n")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2026-03-03,1,,", "future"),
        ("yesterday,1,,", "day must"),
        ("2026-02-30,1,,", "day must"),
        ("01/02/2026,1,,", "day must"),
        ("2026-02-28T10:00,1,,", "day must"),
        (",1,,", "day must"),
        ("2026-02-28,,,", "total must"),
        ("2026-02-28,-1,,", "total must"),
        ("2026-02-28,1.5,,", "total must"),
        ("2026-02-28,1e9,,", "total must"),
        ("2026-02-28,2147483648,,", "total must"),
        ("2026-02-28," + "9" * 5_000 + ",,", "total must"),
        ("2026-02-28,٣,,", "total must"),
        ("2026-02-28,1,x,", "robocalls must"),
        ("2026-02-28,1,2,", "more robocalls"),
        ("2026-02-28,1,," + "s" * 33, "source must"),
        ("2026-02-28,1,,\x00\x01", "source must"),
    ],
)
def test_a_complaint_that_cannot_be_is_rejected(row: str, says: str) -> None:
    line = rejected(complaints(f"number,day,total,robocalls,source\n{NUMBER},{row}\n"))
    assert says in line.reason
    assert line.number == "1********42"


@pytest.mark.parametrize("day", ["2026-03-01", "2026-03-02", "1970-01-01", "0001-01-01"])
def test_days_up_to_tomorrow_are_taken(day: str) -> None:
    assert len(values(complaints(f"number,day,total\n{NUMBER},{day},2147483647\n"))) == 1


def test_a_day_is_counted_once_for_a_number_and_a_source() -> None:
    row = f"{NUMBER},2026-02-28,1"
    text = f"number,day,total,source\n{row},a\n{row},b\n{NUMBER},2026-02-27,1,a\n{row},a\n{row},\n{row},import\n"
    assert [line for line in complaints(text) if isinstance(line, Rejected)] == [
        Rejected(5, "the same number, source, day as line 2", "1********42"),
        Rejected(7, "the same number, source, day as line 6", "1********42"),
    ]


@pytest.mark.parametrize("source", ["", " ", "\x00", "s" * 33])
def test_a_source_without_a_usable_name_is_refused(source: str) -> None:
    with pytest.raises(InvalidSource):
        complaints("number,day,total\n", source=source)
