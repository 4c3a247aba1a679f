"""The records of any CSV file: cells as the csv module reads them, the line of each, and none that spoils another."""

import csv
import io
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lookup.datasets import csv_rows, reading
from lookup.datasets.csv_rows import Header
from lookup.datasets.reading import Rejected, Unreadable

THREE = Header(("a", "b", "c"), ",")
OPEN = csv_rows.QUOTE_LEFT_OPEN


def lines_of(text: str) -> Iterator[str]:
    """As a file hands them out: a line ends after a line feed, and nowhere else."""
    return iter(io.StringIO(text, newline="\n"))


def rows(text: str, header: Header = THREE, *, multiline: bool = False) -> list[tuple[int, list[str]] | Rejected]:
    return list(csv_rows.rows(lines_of(text), header, multiline=multiline))


@pytest.mark.parametrize(
    ("line", "columns", "delimiter"),
    [
        ("number,name,location\n", ("number", "name", "location"), ","),
        ("\ufeffNumber, First  Name \r\n", ("number", "first name"), ","),
        ("number;name;note, if any\r\n", ("number", "name", "note, if any"), ";"),
        ("number\tname\n", ("number", "name"), "\t"),
        ("\tname\tnote\t\n", ("", "name", "note", ""), "\t"),
        ('\ufeff"a, or b";"c"\n', ("a, or b", "c"), ";"),
        ("number", ("number",), ","),
        ("STRASSE,Straße", ("strasse", "strasse"), ","),
    ],
)
def test_a_header_is_taken_apart_where_it_has_most_columns(line: str, columns: tuple[str, ...], delimiter: str) -> None:
    assert csv_rows.header(line) == Header(columns, delimiter)


@pytest.mark.parametrize(
    "line", ["", "\r\n", "\ufeff\n", ",,,\n", '"number,name\n', '"a"b,c\n', "x" * 200_000, "a\rb\n"]
)
def test_what_names_no_columns_is_no_header(line: str) -> None:
    assert csv_rows.header(line) is None


def test_a_column_is_found_by_any_of_its_names() -> None:
    assert (THREE.find("x", "c"), THREE.find("x"), THREE.index("b"), THREE.index("x")) == (2, None, 1, 3)
    assert THREE.filled(["1"]) == ["1", "", "", ""]


def test_the_header_is_the_first_line_that_is_not_blank() -> None:
    lines = lines_of("\ufeff\n \t\r\na;b\n1;2\n")
    assert csv_rows.read_header(lines) == (Header(("a", "b"), ";"), 4)
    assert list(lines) == ["1;2\n"]


@pytest.mark.parametrize(("text", "says"), [("", "empty"), ("\n\n", "empty"), ('\n"a\n', "line 2 is no CSV")])
def test_a_file_without_a_header_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        csv_rows.read_header(lines_of(text))


@pytest.mark.parametrize("multiline", [False, True])
def test_cells_come_as_they_are_with_the_line_that_an_editor_shows(multiline: bool) -> None:
    text = '1, 2 ,3\r\n\r\n  \n,,\n"x, y","say ""hi""",\n5" disk,b\n1,2,3,,\n\n1,2,3'
    assert rows(text, multiline=multiline) == [
        (2, ["1", " 2 ", "3"]),
        (6, ["x, y", 'say "hi"', ""]),
        (7, ['5" disk', "b"]),
        (8, ["1", "2", "3"]),
        (10, ["1", "2", "3"]),
    ]


@pytest.mark.parametrize("multiline", [False, True])
def test_a_bad_record_costs_its_own_line_only(multiline: bool) -> None:
    text = '1,2,3\n1,2,3,4\n"a"b,c\na\rb\n1,J\udce4ne,3\n"J\udce4ne",2,3\n"J\udce4"ne,2,3\n1,2,3\n'
    assert rows(text, multiline=multiline) == [
        (2, ["1", "2", "3"]),
        Rejected(3, csv_rows.TOO_MANY_CELLS),
        Rejected(4, "no CSV: ',' expected after '\"'"),
        Rejected(5, "no CSV: new-line character seen in unquoted field"),
        *(Rejected(line, reading.NOT_UTF8) for line in (6, 7, 8)),
        (9, ["1", "2", "3"]),
    ]


def test_a_cell_beyond_the_csv_modules_limit_costs_its_line_only() -> None:
    bad, good = rows(f'1,"{"x" * 200_000}",3\n1,2,3\n')
    assert bad == Rejected(2, "no CSV: field larger than field limit (131072)")
    assert good == (3, ["1", "2", "3"])


def test_two_stray_quotes_do_not_make_one_record_of_all_between() -> None:
    end = "no CSV: unexpected end of data"
    assert rows('1,"Foo\n2,Bar\n3,Baz"\n4,"\n') == [
        Rejected(2, end),
        (3, ["2", "Bar"]),
        (4, ["3", 'Baz"']),
        Rejected(5, end),
    ]


def test_a_quoted_cell_may_hold_line_breaks_where_they_are_expected() -> None:
    assert rows('1,"one\n\n""two"", three\r\n",3\n4,5,6\n', multiline=True) == [
        (2, ["1", 'one\n\n"two", three\r\n', "3"]),
        (6, ["4", "5", "6"]),
    ]


def test_an_undecodable_byte_in_any_line_of_a_record_costs_the_whole_of_it() -> None:
    assert rows('1,"one\nJ\udce4ne\n",3\n4,5,6\n', multiline=True) == [
        Rejected(2, reading.NOT_UTF8),
        (5, ["4", "5", "6"]),
    ]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('1,"Foo\n2,Bar\n', [(3, ["2", "Bar"])]),  # the file ends
        ('1,"Foo\n2,Bar\n3,"Baz"\n', [(3, ["2", "Bar"]), (4, ["3", "Baz"])]),  # another quote opens
        ('1,"Foo\n2,"Bar\n3,"Baz"\n', [Rejected(3, OPEN), (4, ["3", "Baz"])]),
    ],
)
def test_a_quote_that_is_left_open_swallows_no_line_after_its_own(text: str, after: list[object]) -> None:
    assert rows(text, multiline=True) == [Rejected(2, OPEN), *after]


def test_a_record_has_at_most_1000_lines() -> None:
    assert rows('1,"' + "\n" * 999 + '",3\n4,5,6\n', multiline=True) == [
        (2, ["1", "\n" * 999, "3"]),
        (1002, ["4", "5", "6"]),
    ]
    assert rows('1,"' + "\n" * 1000 + '",3\n4,5,6\n', multiline=True) == [
        Rejected(2, OPEN),
        Rejected(1002, OPEN),
        (1003, ["4", "5", "6"]),
    ]


def test_a_record_has_at_most_256_kib() -> None:
    # Each cell stays below the csv module's own limit.
    cell = '"' + ("x" * 1023 + "\n") * 120 + '"'
    good, last = rows(f"{cell},{cell},\n4,5,6\n", multiline=True)
    assert isinstance(good, tuple)
    assert last == (243, ["4", "5", "6"])
    assert rows(f"{cell},{cell},{cell}\n4,5,6\n", multiline=True)[0] == Rejected(2, OPEN)


# The csv module writes a lone carriage return without quotes, and then cannot read it.
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8) | st.text(
    ' ",;\t\na', max_size=8
)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=5), max_size=8)


def is_blank(row: tuple[int, list[str]] | Rejected) -> bool:
    return isinstance(row, tuple) and not "".join(row[1]).strip()


@settings(max_examples=200, deadline=None)
@given(TABLES, st.sampled_from(csv_rows.DELIMITERS), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_what_the_csv_module_writes_is_read_as_it_reads_it(
    table: list[list[str]], delimiter: str, end: str, quote_all: bool
) -> None:
    file = io.StringIO(newline="")
    csv.writer(
        file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    ).writerows(table)
    written = file.getvalue()
    read = rows(written, Header(("",) * 5, delimiter), multiline=True)
    expected = [row for row in csv.reader(lines_of(written), delimiter=delimiter) if "".join(row).strip()]
    assert [row if isinstance(row, Rejected) else row[1] for row in read if not is_blank(row)] == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(['"', ",", "\n", "\r", "a", " ", "\udc80", "\0", "é", '""', '","', '",\n']), max_size=40)
)
@example(['"', "\n"] * 10)
def test_no_text_stops_the_reader_or_the_counting_of_lines(parts: list[str]) -> None:
    text = "".join(parts)
    for multiline in (False, True):
        lines = [row.line if isinstance(row, Rejected) else row[0] for row in rows(text, multiline=multiline)]
        assert lines == sorted(set(lines))
        assert all(2 <= line <= text.count("\n") + 2 for line in lines)


def test_a_line_too_long_for_any_list_is_not_taken_apart() -> None:
    long = "," * (csv_rows.MAX_LINE + 1)
    header = csv_rows.Header(("number", "name"), ",")
    assert list(csv_rows.rows(iter([long + "\n", "1,a\n"]), header)) == [
        Rejected(2, csv_rows.TOO_LONG),
        (3, ["1", "a"]),
    ]
    with pytest.raises(Unreadable):
        csv_rows.read_header(iter([long]))
