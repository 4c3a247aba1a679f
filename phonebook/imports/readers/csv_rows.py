"""The base of the CSV readers, and the records of a CSV file with the line at which each begins: RFC 4180 with commas,
semicolons or tabs.

A malformed record costs no other record.
"""

import csv
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import chain
from operator import itemgetter
from typing import Any, Self

from phonebook.imports.readers import base
from phonebook.imports.readers.base import ComplaintRow, ContactRow, InvalidCell, Rejected, UnreadableFile

DELIMITERS = ",;\t"
UNCLOSED_QUOTE = "unclosed quotation mark"
#: A record ends here at the latest: after an unclosed quote its lines are read again, each as a record of its own.
MAX_RECORD_LINES = 1_000
#: Characters of a record: its cells are in memory at once.
MAX_RECORD = 256 * 1024
#: As many as a sheet of Excel or LibreOffice has; some of them write them all, most of them empty.
MAX_COLUMNS = 16_384
TOO_LONG = f"record longer than {MAX_RECORD // 1024} KiB"
TOO_MANY_CELLS = "more cells than columns; a comma inside a cell needs quotes around the cell"


@dataclass(frozen=True, slots=True)
class Header:
    """The names of a file's columns, casefolded and with single spaces."""

    columns: tuple[str, ...]
    delimiter: str

    def has(self, *names: str) -> bool:
        """Whether a column has one of these names."""
        return self.index(*names) < len(self.columns)

    def index(self, *names: str) -> int:
        """The index of the first column with one of these names; without one, that of an empty cell after all
        columns."""
        return next((index for index, column in enumerate(self.columns) if column in names), len(self.columns))


def delimiter_hint(line: str) -> str:
    """The delimiter in the line `sep=;`, which Excel reads and other spreadsheets fill with empty cells; of another
    line, nothing."""
    text = line.strip("\ufeff \r\n").replace('"', "")
    is_hint = text[:4].casefold() == "sep=" and not text[5:].strip(f"{DELIMITERS} ")
    return text[4:5] if is_hint else ""


def parse_header(line: str, delimiter: str | None = None) -> Header | None:
    """The header in `line`, by default with the delimiter that gives most columns; None if it has no names or is not
    CSV."""
    if len(line) > MAX_RECORD:
        return None
    line = line.removeprefix("\ufeff").rstrip("\r\n")
    headers = []
    for tried in delimiter or DELIMITERS:
        with suppress(csv.Error, TypeError, ValueError):  # the latter: no delimiter, such as a quotation mark
            cells = next(csv.reader([line], delimiter=tried, strict=True))
            shown = (
                "".join(c for c in cell if c.isprintable() or c.isspace() or base.UNDECODED.match(c)) for cell in cells
            )
            names = (" ".join(cell.split()).casefold() for cell in shown)
            headers.append(Header(tuple(names), tried))
    header = max(headers, key=lambda header: len(header.columns), default=None)
    return header if header and any(header.columns) else None


def find_header(begin: Iterable[tuple[int, str]], matches: Callable[[Header], bool]) -> tuple[int, Header] | None:
    """The first header that `matches`, in lines with their numbers, and its line's number: programs write a hint of the
    delimiter, a title and empty rows before it. Reads no further line."""
    delimiter: str | None = None
    for number, line in begin:
        if hint := delimiter_hint(line):
            delimiter = hint
            continue
        for tried in dict.fromkeys((delimiter, None)):
            header = parse_header(line, tried)
            if header is not None and matches(header):
                return number, header
    return None


class _Lines:
    """Lines, of which those of the current `record` can be read again. Raises csv.Error if it is too long."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._again = deque[str]()
        self.record: list[str] = []
        self._size = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if len(self.record) >= MAX_RECORD_LINES:
            raise csv.Error
        line = self._again.popleft() if self._again else next(self._lines)
        self.record.append(line)
        self._size += len(line)
        if self._size > MAX_RECORD:
            raise csv.Error
        return line

    def end_record(self, lines: int | None = None) -> None:
        """End the record after so many lines, by default all of them: the others are read again."""
        if lines is not None:
            self._again.extendleft(reversed(self.record[lines:]))
        self.record.clear()
        self._size = 0


def rows(lines: Iterable[str], header: Header, *, line: int = 2) -> Iterator[tuple[int, list[str]] | Rejected]:
    """Yield each record's line and cells, unchanged. A record may have fewer cells than the header has columns, never
    more. `line`: the number of the first of `lines`. Raises UnreadableFile for more than MAX_COLUMNS.
    """
    width = len(header.columns)
    if width > MAX_COLUMNS:
        raise UnreadableFile(f"the first line has {width:,} columns, more than {MAX_COLUMNS:,}")
    source = _Lines(lines)
    reader = csv.reader(source, delimiter=header.delimiter, strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield Rejected(line, _reason(error, source.record))
            source.end_record(1)
            line += 1
            continue
        if cells is None:
            return
        text = source.record[0] if len(source.record) == 1 else "".join(source.record)
        if not text.isascii() and base.UNDECODED.search(text):
            yield Rejected(line, base.NOT_UTF8)
        elif len(cells) > width and any(cells[width:]):
            yield Rejected(line, TOO_MANY_CELLS)
        elif any(map(str.strip, cells)):
            del cells[width:]
            yield line, cells
        line += len(source.record)
        source.end_record()


def _reason(error: csv.Error, record: list[str]) -> str:
    if len(record[0]) > MAX_RECORD:
        return TOO_LONG
    if base.UNDECODED.search(record[0]):
        return base.NOT_UTF8
    return UNCLOSED_QUOTE if len(record) > 1 or "end of data" in str(error) else f"not CSV: {error}"


class CSVReader(ABC):
    """Reads one file of a CSV format: `recognizes` and `read` are as phonebook.imports.Format describes them."""

    #: The names of each column that the format has, and of each that it may have.
    required: Sequence[tuple[str, ...]] = ()
    optional: Sequence[tuple[str, ...]] = ()
    #: What is wrong with a header that does not match.
    error: str
    #: Returns the number in a cell. Raises InvalidCell.
    parse_number: Callable[..., int] = staticmethod(base.parse_number)

    def __init__(self, header: Header) -> None:
        """Raises UnreadableFile for a header that names a column of the format twice."""
        self.header = header
        columns = (*self.required, *self.optional)
        if any(header.columns.count(name) > 1 for names in columns for name in names):
            raise UnreadableFile("the first line names a column twice")
        if columns:
            #: Returns the cells of the required and the optional columns of a record.
            self.pick = itemgetter(*(header.index(*names) for names in columns))

    @classmethod
    def matches(cls, header: Header) -> bool:
        """Whether a file with this header has the format."""
        return all(header.has(*names) for names in cls.required)

    @abstractmethod
    def parse(self, line: int, cells: list[str]) -> Iterator[Any]:
        """The rows of the record at `line`, with an empty cell after those of all columns."""

    @classmethod
    def recognizes(cls, begin: Sequence[str]) -> int:
        found = find_header(enumerate(begin, 1), cls.matches)
        return found[0] if found else 0

    @classmethod
    def read(cls, lines: Iterator[str], **options: Any) -> Iterator[Any]:
        """`options`: those of the constructor. Raises UnreadableFile."""
        begin = base.begin_of(lines)
        if (first := next(begin, None)) is None:
            raise UnreadableFile("the file is empty; its first line must name the columns")
        if (found := find_header(chain([first], begin), cls.matches)) is None:
            raise UnreadableFile(cls.error)
        number, header = found
        if any(map(base.UNDECODED.search, header.columns)):
            raise UnreadableFile(f"line {number} is {base.NOT_UTF8}")
        reader = cls(header, **options)
        for row in rows(lines, header, line=number + 1):
            if isinstance(row, Rejected):
                yield row
            else:
                line, cells = row
                yield from reader.parse(line, cells + [""] * (len(header.columns) + 1 - len(cells)))


class ContactReader(CSVReader):
    """`region` (ISO 3166-1 alpha-2): where numbers without a country code are dialed."""

    def __init__(self, header: Header, *, region: str | None) -> None:
        super().__init__(header)
        self._region = region

    @abstractmethod
    def contact(self, cells: list[str]) -> tuple[str, list[tuple[str, str, str]]]:
        """The name of a record, and its numbers, each with its name and location."""

    def parse(self, line: int, cells: list[str]) -> Iterator[ContactRow | Rejected]:
        name, numbers = self.contact(cells)
        entries = ((line, *entry) for entry in numbers)
        return base.contact_rows(entries, self._region, self.parse_number, line=line, label=base.label_of(name))


class ComplaintReader(CSVReader):
    """The first of the required columns is the number. `source`: of rows that name none. `today` is in UTC. Rows of
    days before `oldest_day` are skipped."""

    def __init__(self, header: Header, *, source: str, today: date, oldest_day: date | None = None) -> None:
        super().__init__(header)
        self.source, self.today, self._oldest_day = source, today, oldest_day or date.min

    @abstractmethod
    def complaint(self, cells: Sequence[str]) -> tuple[str, date, int, int, str, str]:
        """What follows the number in a ComplaintRow, from the cells of all columns. Raises InvalidCell."""

    def parse(self, line: int, cells: list[str]) -> Iterator[ComplaintRow | Rejected]:
        number = None
        picked = self.pick(cells)
        try:
            number = self.parse_number(picked[0])
            complaint = self.complaint(picked)
            if complaint[1] >= self._oldest_day:
                yield line, number, *complaint
        except InvalidCell as error:
            yield base.rejected(line, error, number)
