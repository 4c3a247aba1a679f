"""The records of a CSV file, with the line at which each begins; RFC 4180, with commas, semicolons or tabs between.

Whatever stands in a file, a record that is no CSV spoils no other.
"""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lookup.answers import clean_text
from lookup.datasets import reading
from lookup.datasets.reading import BadCell, ContactRow, Rejected, Unreadable

DELIMITERS = ",;\t"
QUOTE_LEFT_OPEN = "a quote is left open"
TOO_MANY_CELLS = "more cells than columns; a comma inside a cell needs quotes around the cell"
#: What a quoted cell with line breaks may be long; beyond it, its quote is taken for a stray one.
MAX_RECORD_LINES = 1000
MAX_RECORD_CHARACTERS = 256 * 1024
#: A line of more characters is none of a list of numbers.
MAX_LINE = 2**20
TOO_LONG = "longer than 1 MiB"
_BLANK = "\ufeff \t\r\n"


@dataclass(frozen=True, slots=True)
class Header:
    """The names of a file's columns, casefolded and with single spaces."""

    columns: tuple[str, ...]
    delimiter: str

    def find(self, *names: str) -> int | None:
        """Where the first column is that has one of these names."""
        return next((index for index, column in enumerate(self.columns) if column in names), None)

    def index(self, *names: str) -> int:
        """As `find`; where there is none, the first index beyond the columns, which is that of a `filled` row's last
        cell."""
        found = self.find(*names)
        return len(self.columns) if found is None else found

    def filled(self, cells: list[str]) -> list[str]:
        """`cells`, with empty ones for those that a row lacks, and one more."""
        return cells + [""] * (len(self.columns) + 1 - len(cells))


def header(line: str) -> Header | None:
    """What `line` names, taken apart as gives most columns; None where it names nothing or is no CSV."""
    line = line.removeprefix("\ufeff").rstrip("\r\n")
    readings = [found for delimiter in DELIMITERS if (found := _header(line, delimiter))]
    found = max(readings, key=lambda found: len(found.columns), default=None)
    return found if found and any(found.columns) else None


def _header(line: str, delimiter: str) -> Header | None:
    try:
        cells = next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    columns = tuple(" ".join(cell.split()).casefold() for cell in cells)
    return Header(columns, delimiter)


def read_header(lines: Iterator[str]) -> tuple[Header, int]:
    """The header, which is the first line that is not blank, and which line comes after it. Raises Unreadable."""
    for number, line in enumerate(lines, start=1):
        if line.strip(_BLANK):
            found = header(line) if len(line) <= MAX_LINE else None
            if found is None:
                raise Unreadable(f"line {number} is no CSV; it must name the columns")
            return found, number + 1
    raise Unreadable("the file is empty; its first line must name the columns")


def rows(
    lines: Iterator[str], header: Header, *, multiline: bool = False, line: int = 2
) -> Iterator[tuple[int, list[str]] | Rejected]:
    """The records of `lines`, which begin with the one after the header, and that is `line`: each with the line at
    which it begins, and its cells as they are. A record may have fewer cells than the header has columns, never more.

    `multiline`: a quoted cell may hold line breaks. Else each line is read by itself.
    """
    delimiter, width = header.delimiter, len(header.columns)
    returnable = _Returnable(lines) if multiline else None
    one_line = _OneLine()
    # One for all lines: making one takes longer than reading a line.
    reader = csv.reader(one_line, delimiter=delimiter, strict=True)
    following = line
    for raw in returnable or lines:
        line = following
        following += 1
        text = raw.rstrip("\r\n")
        if len(text) > MAX_LINE:
            yield Rejected(line, TOO_LONG)
            continue
        if '"' not in text and "\r" not in text:
            cells = text.split(delimiter)
        else:
            # The csv module takes from here as many lines as its record has.
            taken: list[str] = []
            if returnable:
                reader = csv.reader(_record(raw, returnable, taken), delimiter=delimiter, strict=True)
            else:
                one_line.text = text
            try:
                cells = next(reader)
            except csv.Error as error:
                if returnable:
                    returnable.give_back(taken[1:])
                yield Rejected(line, _why(error, raw, open_quote=len(taken) > 1 or (multiline and _at_end(error))))
                continue
            if returnable:
                following += len(taken) - 1
                text = "".join(taken)
        if not text.isascii() and reading.UNDECODED.search(text):
            yield Rejected(line, reading.NOT_UTF8)
            continue
        if not any(cells) or text.isspace():
            continue
        if len(cells) > width:
            if any(cells[width:]):
                yield Rejected(line, TOO_MANY_CELLS)
                continue
            del cells[width:]
        yield line, cells


class _OneLine:
    """Hands out its text once."""

    text: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        text, self.text = self.text, None
        if text is None:
            raise StopIteration
        return text


class _Returnable:
    """Lines that can be given back after they were taken."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._returned: deque[str] = deque()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._returned.popleft() if self._returned else next(self._lines)

    def give_back(self, lines: list[str]) -> None:
        self._returned.extendleft(reversed(lines))


def _record(first: str, following: Iterable[str], taken: list[str]) -> Iterator[str]:
    """`first` and the lines after it, as far as a record may reach; `taken` is what was handed out."""
    taken.append(first)
    yield first
    size = len(first)
    for line in following:
        taken.append(line)
        size += len(line)
        if len(taken) > MAX_RECORD_LINES or size > MAX_RECORD_CHARACTERS:
            return
        yield line


def _at_end(error: csv.Error) -> bool:
    return "end of data" in str(error)


def _why(error: csv.Error, line: str, *, open_quote: bool) -> str:
    if reading.UNDECODED.search(line):
        return reading.NOT_UTF8
    # What follows the dash is advice to programmers.
    return QUOTE_LEFT_OPEN if open_quote else f"no CSV: {str(error).partition(' - ')[0]}"


def contacts(
    line: int, numbers_found: Iterable[tuple[str, str, str]], region: str | None
) -> Iterator[ContactRow | Rejected]:
    """What an address book's row at `line` hands out, for its cells of a number, each with its name and location; a
    number that comes twice in it, once."""
    seen: set[int] = set()
    for cell, name, location in numbers_found:
        try:
            number = reading.number(cell, region)
        except BadCell as error:
            yield Rejected(line, str(error))
            continue
        if number in seen:
            continue
        seen.add(number)
        if name or location:
            yield line, number, name, location
        else:
            yield reading.rejected(line, reading.NO_NAME_OR_PLACE, number)


def place(city: str, state: str, country: str) -> str:
    """`City, State`, or what there is of it, or the country."""
    city, state = clean_text(city), clean_text(state)
    if city.casefold() == state.casefold():
        state = ""
    return clean_text(", ".join(filter(None, (city, state))) or country)
