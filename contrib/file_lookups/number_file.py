"""Files of numbers to look up: CSV with or without a first line that names the columns, or one number on each line. The
results are written as CSV with the same columns, delimiter and rows."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, NamedTuple, TextIO

import msgspec

from core import numbers
from core.amounts import whole_number
from core.csv_cells import neutralized
from phonebook.imports.files import open_text
from phonebook.imports.readers.base import NOT_UTF8, UNDECODED, Rejected, UnreadableFile, begin_of
from phonebook.imports.readers.csv_rows import Header, find_header, rows

#: The names, in lower case, of a column that has the numbers if none is chosen.
NAMES = (
    *("number", "phone number", "phone_number", "phone", "telephone", "rufnummer", "telefonnummer"),
    *("numéro de téléphone", "número de teléfono", "numero di telefono", "número de telefone", "telefoonnummer"),
)


class Result(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What is written about a number, in this order. `spam_b`: `true`, `false` or empty."""

    searched_number: str = ""
    outcome: str = ""
    name_a: str = ""
    location_a: str = ""
    name_b: str = ""
    spam_b: str = ""


def result_of(number: str, body: Mapping[str, Any] | None) -> Result:
    """The result in the body of an answer of the API; None: the search failed."""
    if body is None:
        return Result(number, "failed")
    data = body["data"]
    a, b, outcome = data["source_a"], data["source_b"], "found" if any(data["combined"].values()) else "not_found"
    spam = {True: "true", False: "false"}.get(b.get("spam"), "")
    return Result(number, outcome, a.get("name", ""), a.get("location", ""), b.get("name", ""), spam)


COLUMNS = Result.__struct_fields__
ANSWERED = ("found", "not_found")
UNANSWERED = ("failed", "pending")
OUTCOMES = (*ANSWERED, "invalid", *UNANSWERED)
INVALID = Result(outcome="invalid")


def least_duration(searches: int, limit: int, window_s: int) -> timedelta:
    """How long the searches take at least, of which `limit` are admitted in any `window_s`."""
    return timedelta(seconds=max(0, searches - 1) // limit * window_s)


class Record(NamedTuple):
    """`number`: its digits, or empty if `problem` says why there is none. `cells`: none if they could not be read."""

    line: int
    cells: list[str]
    number: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NumberFile:
    """`columns`: their names, or `column_1` and so on. `records` can be read once."""

    name: str
    columns: list[str]
    delimiter: str
    records: Iterator[Record]
    byte_order_mark: str = ""

    def count(self, on_problem: Callable[[Record], object]) -> Counter[str]:
        """How many records have each number; of "", those that have none."""
        counts = Counter[str]()
        for record in self.records:
            counts[record.number] += 1
            if record.problem:
                on_problem(record)
        return counts

    def write(self, output: TextIO, results: Mapping[str, Result]) -> Counter[str]:
        """Write each record with the result of its number. Returns how many records have each outcome."""
        outcomes = Counter[str]()
        output.write(self.byte_order_mark)  # without it, Excel does not read UTF-8
        writer = csv.writer(output, delimiter=self.delimiter)
        writer.writerow([*self.columns, *COLUMNS])
        for record in self.records:
            result = results.get(record.number) or (Result(record.number, "pending") if record.number else INVALID)
            outcomes[result.outcome] += 1
            writer.writerow(cells_of(record.cells, len(self.columns), result))
        return outcomes


def cells_of(cells: list[str], width: int, result: Result) -> list[str]:
    """A row of the output. `width`: how many columns the file has."""
    return [*cells, *[""] * (width - len(cells)), *map(neutralized, msgspec.structs.astuple(result))]


@contextmanager
def open_numbers(
    path: str, *, column: str | None = None, region: str | None = None, **opening: Any
) -> Iterator[NumberFile]:
    """Open `path`, plain or gzip. `column`: the name of the column of numbers, or its position from 1. `region` (ISO
    3166-1 alpha-2): where numbers without a plus are dialed; without it all numbers begin with their country code.
    `opening`: options of open_text.

    Raises OSError and UnreadableFile, also while the records are read.
    """
    with open_text(path, **opening) as file:
        begin = list(begin_of(file.lines))
        line, header, index, has_names = _header(begin, column)
        following = [text for n, text in begin if n >= line]
        if UNDECODED.search(following[0]):
            raise UnreadableFile(f"line {line} is {NOT_UTF8}")
        if has_names:
            names = next(csv.reader([following.pop(0).removeprefix("\ufeff")], delimiter=header.delimiter))
        else:
            names = [f"column_{n}" for n in range(1, len(header.columns) + 1)]
        if taken := set(COLUMNS).intersection(names):
            raise UnreadableFile(f"rename the column {min(taken)}: the results have one of that name")
        found = rows(chain(following, file.lines), header, line=line + has_names)
        records = (_record(row, index, region) for row in found)
        yield NumberFile(file.name, names, header.delimiter, records, file.byte_order_mark)


def _header(begin: list[tuple[int, str]], column: str | None) -> tuple[int, Header, int, bool]:
    """The line of the header, or of the first record; the header; the index of the column of numbers; and whether the
    line names the columns: without a digit there it does. Raises UnreadableFile."""
    chosen = (" ".join(column.split()).casefold(),) if column else NAMES
    try:
        position = whole_number(column or "1")
    except ValueError:
        position = 0
    # Below, a number such as 2 is a cell of a record.
    names = begin[:1] if column and position else begin
    if named := find_header(names, lambda header: header.has(*chosen)):
        return *named, named[1].index(*chosen), True
    first = find_header(begin, lambda header: len(header.columns) >= position)
    if first is None or not position:
        raise UnreadableFile("the first line has no such column" if begin else "the file is empty")
    line, header = first
    if column is None and len(header.columns) > 1:
        raise UnreadableFile("the first line names no column 'number': choose the column (--column)")
    return line, header, position - 1, _is_name(header.columns[position - 1])


def _is_name(cell: str) -> bool:
    """Whether it is the name of a column, such as `phone 2`, rather than a number."""
    digits = sum(map(str.isdecimal, cell))
    return not digits or (digits < 7 and any(map(str.isalpha, cell)))


def _record(row: tuple[int, list[str]] | Rejected, index: int, region: str | None) -> Record:
    if isinstance(row, Rejected):
        return Record(row.line, [], problem=row.reason)
    line, cells = row
    text = cells[index] if index < len(cells) else ""
    try:
        number = numbers.parse_listed(text, region) if region else numbers.parse_coded(text)
    except numbers.InvalidNumber as error:
        return Record(line, cells, problem=f"invalid phone number ({error})")
    return Record(line, cells, number)
