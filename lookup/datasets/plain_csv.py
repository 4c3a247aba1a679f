"""Readers of the service's own CSV formats: UTF-8, commas, a header that names the columns in any order.

Contacts: `number,name,location`. Complaints: `number,day,total` and, if wanted, `robocalls` and `source`.

A file that cannot be read as a whole raises Unreadable before the first row is handed out. A line that cannot be used
is handed out as a Rejected, and the reader goes on.
"""

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import IO, Any

from lookup import numbers
from lookup.answers import clean_text
from lookup.models import MAX_COUNT

MAX_SOURCE = 32


class Unreadable(Exception):
    """The file as a whole cannot be read; the message says why, and where."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that cannot be used. `number` is masked, and None where there is none to show."""

    line: int
    reason: str
    number: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A good line: its values, in the order of the table that it goes to."""

    line: int
    values: tuple[Any, ...]


class InvalidSource(ValueError):
    """No name for a source: empty, or longer than 32 characters."""


class _BadCell(Exception):
    pass


def read_contacts(file: IO[bytes]) -> Iterator[Row | Rejected]:
    """Rows of number, name, location. `file` must be seekable. Raises Unreadable."""

    def convert(cells: dict[str, str], number: int) -> tuple[Any, ...]:
        name, location = clean_text(cells.get("name", "")), clean_text(cells.get("location", ""))
        if not (name or location):
            raise _BadCell("neither a name nor a location")
        return number, name, location

    return _read(file, ("number",), ("name", "location"), convert, key=("number",))


def read_complaints(file: IO[bytes], *, source: str, today: date) -> Iterator[Row | Rejected]:
    """Rows of number, source, day, total, robocalls. `source` stands where a line names none; `today` is UTC's, and
    tomorrow's complaints are taken too, for the day begins east of Greenwich. `file` must be seekable.

    Raises Unreadable, and InvalidSource for a `source` that is empty or longer than 32 characters.
    """
    default_source = _source(source)
    latest = today + timedelta(days=1)

    def convert(cells: dict[str, str], number: int) -> tuple[Any, ...]:
        try:
            row_source = _source(cells["source"]) if cells.get("source", "").strip() else default_source
        except InvalidSource as error:
            raise _BadCell(str(error)) from None
        day = _day(cells["day"])
        if day > latest:
            raise _BadCell("the day is in the future")
        total = _count(cells, "total")
        robocalls = _count(cells, "robocalls") if cells.get("robocalls", "").strip() else 0
        if robocalls > total:
            raise _BadCell("more robocalls than complaints")
        return number, row_source, day, total, robocalls

    return _read(file, ("number", "day", "total"), ("robocalls", "source"), convert, key=("number", "source", "day"))


def _read(
    file: IO[bytes],
    required: Sequence[str],
    optional: Sequence[str],
    convert: Callable[[dict[str, str], int], tuple[Any, ...]],
    *,
    key: Sequence[str],
) -> Iterator[Row | Rejected]:
    """`key`: the names of a row's first values that together may come only once in a file."""
    _require_utf8(file)
    lines = iter(codecs.iterdecode(file, "utf-8-sig"))
    columns = _columns(lines, required, optional)
    return _rows(lines, columns, convert, key)


def _require_utf8(file: IO[bytes]) -> None:
    for line, raw in enumerate(file, start=1):
        try:
            raw.decode()
        except UnicodeDecodeError:
            raise Unreadable(f"line {line} is not UTF-8") from None
    file.seek(0)


def _cells(line: str) -> list[str]:
    """Each line by itself, for names and places are one line: a quote left open spoils no other. Raises csv.Error."""
    return next(csv.reader([line], strict=True))


def _columns(lines: Iterator[str], required: Sequence[str], optional: Sequence[str]) -> list[str]:
    try:
        header = [cell.strip().casefold() for cell in _cells(next(lines))]
    except StopIteration:
        raise Unreadable(f"the file is empty; its first line must be {','.join(required)}") from None
    except csv.Error as error:
        raise Unreadable(f"line 1 is {_no_csv(error)}") from None
    known = [column for column in header if column in (*required, *optional)]
    missing = [column for column in required if column not in known]
    if missing:
        raise Unreadable(f"the first line must name the columns, with commas between; missing: {', '.join(missing)}")
    if len(set(known)) < len(known):
        raise Unreadable("the first line names a column twice")
    return header


def _rows(
    lines: Iterator[str],
    columns: list[str],
    convert: Callable[[dict[str, str], int], tuple[Any, ...]],
    key: Sequence[str],
) -> Iterator[Row | Rejected]:
    lines_by_key: dict[tuple[Any, ...], int] = {}
    for line, text in enumerate(lines, start=2):
        try:
            cells = _cells(text)
        except csv.Error as error:
            yield Rejected(line, _no_csv(error))
            continue
        if not any(cells):
            continue
        by_column = dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))
        masked = None
        try:
            number = _number(by_column["number"])
            masked = numbers.mask(str(number))
            if len(cells) > len(columns):
                raise _BadCell("more cells than columns; a comma inside a cell needs quotes around the cell")
            values = convert(by_column, number)
            first = lines_by_key.setdefault(values[: len(key)], line)
            if first != line:
                raise _BadCell(f"the same {', '.join(key)} as line {first}")
        except _BadCell as error:
            yield Rejected(line, str(error), masked)
        else:
            yield Row(line, values)


def _no_csv(error: csv.Error) -> str:
    # What follows the dash is advice to programmers.
    return f"no CSV: {str(error).partition(' - ')[0]}"


def _number(cell: str) -> int:
    try:
        return int(numbers.read(cell))
    except numbers.InvalidNumber as error:
        raise _BadCell(f"number {error}") from None


@lru_cache(maxsize=1024)
def _source(cell: str) -> str:
    source = clean_text(cell)
    if not 1 <= len(source) <= MAX_SOURCE:
        raise InvalidSource(f"source must have 1 to {MAX_SOURCE} characters")
    return source


@lru_cache(maxsize=1024)
def _day(cell: str) -> date:
    with suppress(ValueError):
        return date.fromisoformat(cell.strip())
    raise _BadCell("day must be a date such as 2026-01-31")


def _count(cells: dict[str, str], column: str) -> int:
    cell = cells[column].strip()
    if cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) <= MAX_COUNT:
        return int(cell)
    raise _BadCell(f"{column} must be a whole number from 0 to {MAX_COUNT}")
