"""CSV records have the csv module's cells and an editor's line numbers, and a malformed one costs no other."""

import csv
import io
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import Rejected, UnreadableFile
from phonebook.imports.readers.csv_rows import Header

THREE = Header(("a", "b", "c"), ",")
UNCLOSED = csv_rows.UNCLOSED_QUOTE


def lines_of(text: str) -> Iterator[str]:
    """As a file yields them: only a line feed ends a line."""
    return iter(io.StringIO(text, newline="\n"))


def rows(text: str, header: Header = THREE) -> list[tuple[int, list[str]] | Rejected]:
    return list(csv_rows.rows(lines_of(text), header))


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
def test_delimiter_with_most_columns_is_chosen(line: str, columns: tuple[str, ...], delimiter: str) -> None:
    assert csv_rows.parse_header(line) == Header(columns, delimiter)


@pytest.mark.parametrize(
    "line",
    ["", "\r\n", "\ufeff\n", ",,,\n", '"number,name\n', '"a"b,c\n', "x" * 200_000, "a" + "," * csv_rows.MAX_RECORD],
)
def test_line_without_column_names_is_no_header(line: str) -> None:
    assert csv_rows.parse_header(line) is None


def test_cells_are_unchanged_and_lines_are_an_editors() -> None:
    text = '1, 2 ,3\r\n\r\n  \n,,\n"x, y","say ""hi""",\n5" disk,b\n1,2,3,,\n\n1,2,3'
    assert rows(text) == [
        (2, ["1", " 2 ", "3"]),
        (6, ["x, y", 'say "hi"', ""]),
        (7, ['5" disk', "b"]),
        (8, ["1", "2", "3"]),
        (10, ["1", "2", "3"]),
    ]


def test_malformed_record_costs_only_its_own_line() -> None:
    text = '1,2,3\n1,2,3,4\n"a"b,c\n1,J\udce4ne,3\n"J\udce4ne",2,3\n"J\udce4"ne,2,3\n1,2,3\n'
    assert rows(text) == [
        (2, ["1", "2", "3"]),
        Rejected(3, csv_rows.TOO_MANY_CELLS),
        Rejected(4, "not CSV: ',' expected after '\"'"),
        *(Rejected(line, base.NOT_UTF8) for line in (5, 6, 7)),
        (8, ["1", "2", "3"]),
    ]


def test_quoted_cell_may_contain_line_breaks() -> None:
    assert rows('1,"one\n\n""two"", three\r\n",3\n4,5,6\n') == [
        (2, ["1", 'one\n\n"two", three\r\n', "3"]),
        (6, ["4", "5", "6"]),
    ]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('1,"Foo\n2,Bar\n', [(3, ["2", "Bar"])]),  # the file ends
        ('1,"Foo\n2,Bar\n3,"Baz"\n', [(3, ["2", "Bar"]), (4, ["3", "Baz"])]),  # another quote opens
        ('1,"Foo\n2,"Bar\n3,"Baz"\n', [Rejected(3, UNCLOSED), (4, ["3", "Baz"])]),
    ],
)
def test_unclosed_quote_costs_only_its_own_line(text: str, after: list[object]) -> None:
    assert rows(text) == [Rejected(2, UNCLOSED), *after]


def test_long_record_costs_only_itself() -> None:
    cell = "x" * 100_000
    fits = f"{cell},{cell},{'y' * 60_000}"
    assert rows(f"{fits}\n{fits}yyyyyyyyyy,{cell}\n4,5,6\n") == [
        (2, [cell, cell, "y" * 60_000]),
        Rejected(3, csv_rows.TOO_LONG),
        (4, ["4", "5", "6"]),
    ]
    # Of one that goes on over lines, each of them is read again.
    found = rows(f'1,"{cell}\n{cell}\n{cell}",3\n4,5,6\n')
    assert found[0] == Rejected(2, UNCLOSED)
    assert found[-1] == (5, ["4", "5", "6"])


def test_sheet_of_a_spreadsheet_is_read_whole() -> None:
    """Some are saved with all 16,384 columns, of which few have a name."""
    width = csv_rows.MAX_COLUMNS
    header = csv_rows.parse_header("number,name" + "," * (width - 2))
    assert header is not None
    assert rows(f"1,Eve{',' * (width - 2)}\n", header) == [(2, ["1", "Eve", *[""] * (width - 2)])]
    with pytest.raises(UnreadableFile, match=r"16,385 columns, more than 16,384"):
        rows("1\n", Header((*header.columns, ""), ","))


def test_record_has_at_most_1000_lines() -> None:
    assert rows('1,"' + "\n" * 999 + '",3\n4,5,6\n') == [
        (2, ["1", "\n" * 999, "3"]),
        (1002, ["4", "5", "6"]),
    ]
    assert rows('1,"' + "\n" * 1000 + '",3\n4,5,6\n') == [
        Rejected(2, UNCLOSED),
        Rejected(1002, UNCLOSED),
        (1003, ["4", "5", "6"]),
    ]


# The csv module writes a lone carriage return without quotes, and then cannot read it.
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8) | st.text(
    ' ",;\t\na', max_size=8
)
TABLES = st.lists(st.lists(CELLS, min_size=2, max_size=5), max_size=8)


def is_blank(row: tuple[int, list[str]] | Rejected) -> bool:
    return isinstance(row, tuple) and not "".join(row[1]).strip()


@settings(max_examples=200, deadline=None)
@given(TABLES, st.sampled_from(csv_rows.DELIMITERS), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_output_of_the_csv_module_is_read_as_by_itself(
    table: list[list[str]], delimiter: str, end: str, quote_all: bool
) -> None:
    file = io.StringIO(newline="")
    csv.writer(
        file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    ).writerows(table)
    written = file.getvalue()
    read = rows(written, Header(("",) * 5, delimiter))
    expected = [row for row in csv.reader(lines_of(written), delimiter=delimiter) if "".join(row).strip()]
    assert [row if isinstance(row, Rejected) else row[1] for row in read if not is_blank(row)] == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(['"', ",", "\n", "\r", "a", " ", "\udc80", "\0", "é", '""', '","', '",\n']), max_size=40)
)
@example(['"', "\n"] * 10)
def test_any_text_is_read_with_valid_line_numbers(parts: list[str]) -> None:
    text = "".join(parts)
    lines = [row.line if isinstance(row, Rejected) else row[0] for row in rows(text)]
    assert lines == sorted(set(lines))
    assert all(2 <= line <= text.count("\n") + 2 for line in lines)
