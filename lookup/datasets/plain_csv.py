"""Readers of the service's own CSV formats: a header that names the columns in any order; one line a row.

Contacts: `number`, and `name` or `location` or both. Complaints: `number`, `day`, `total` and, if wanted, `robocalls`,
`source` and `subject`.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache

from lookup import numbers
from lookup.answers import clean_text
from lookup.datasets import csv_rows, reading
from lookup.datasets.reading import BadCell, ComplaintRow, ContactRow, Rejected, Unreadable
from lookup.models import MAX_COUNT

CONTACTS = ("number",)
COMPLAINTS = ("number", "day", "total")


def recognises_contacts(first_line: str) -> bool:
    return _has(first_line, CONTACTS) and not recognises_complaints(first_line)


def recognises_complaints(first_line: str) -> bool:
    return _has(first_line, COMPLAINTS)


def read_contacts(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """`region`: where numbers without a plus are dialled; None: they have their country code. Raises Unreadable."""
    header, first = _header(lines, CONTACTS)
    number_at, name_at, location_at = _columns(header, ("number", "name", "location"))
    width = len(header.columns)
    # A place is one of few.
    place = lru_cache(maxsize=4096)(clean_text)
    for row in csv_rows.rows(lines, header, line=first):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row
        if len(cells) <= width:
            cells = header.filled(cells)
        text = cells[number_at]
        try:
            plain = region is None and text.isascii() and text.isdigit() and numbers.in_plan(text)
            number = int(text) if plain else _number(text, region)
        except BadCell as error:
            yield Rejected(line, str(error))
        else:
            name, location = clean_text(cells[name_at]), place(cells[location_at])
            if name or location:
                yield line, number, name, location
            else:
                yield reading.rejected(line, reading.NO_NAME_OR_PLACE, number)


def read_complaints(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`source` stands where a line names none. A number may come once a source and day. Raises Unreadable."""
    header, first = _header(lines, COMPLAINTS)
    number_at, day_at, total_at, robocalls_at, source_at, subject_at = _columns(
        header, ("number", "day", "total", "robocalls", "source", "subject")
    )
    width = len(header.columns)
    subject_of = lru_cache(maxsize=1024)(lambda cell: clean_text(cell)[: reading.MAX_SUBJECT])
    for row in csv_rows.rows(lines, header, line=first):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row
        if len(cells) <= width:
            cells = header.filled(cells)
        text, number = cells[number_at], None
        try:
            plain = text.isascii() and text.isdigit() and numbers.in_plan(text)
            number = int(text) if plain else _number(text, None)
            row_source = reading.source(cells[source_at]) if cells[source_at].strip() else source
            day = reading.day(cells[day_at], date.fromisoformat, today)
            total = _count(cells[total_at], "total")
            robocalls = _count(cells[robocalls_at], "robocalls")
            if robocalls > total:
                raise BadCell("more robocalls than complaints")
        except BadCell as error:
            yield reading.rejected(line, error, number)
        else:
            yield line, number, row_source, day, total, robocalls, subject_of(cells[subject_at]), reading.WHOLE_COUNT


def _number(text: str, region: str | None) -> int:
    """Without a region it has its country code, which is this format's own rule, with or without a plus."""
    coded = region is None and "+" not in text and text.strip()[:1] in set("(0123456789")
    return reading.number(f"+{text.strip()}" if coded else text, region)


def _has(first_line: str, required: Sequence[str]) -> bool:
    header = csv_rows.header(first_line)
    return header is not None and set(required) <= set(header.columns)


def _header(lines: Iterator[str], required: Sequence[str]) -> tuple[csv_rows.Header, int]:
    header, first = csv_rows.read_header(lines)
    if missing := [column for column in required if header.find(column) is None]:
        raise Unreadable(f"the first line must name the columns; missing: {', '.join(missing)}")
    return header, first


def _columns(header: csv_rows.Header, wanted: Sequence[str]) -> list[int]:
    """Where each stands. Raises Unreadable."""
    if any(header.columns.count(column) > 1 for column in wanted):
        raise Unreadable("the first line names a column twice")
    return [header.index(column) for column in wanted]


@lru_cache(maxsize=4096)
def _count(cell: str, column: str) -> int:
    """Few are different. Raises BadCell."""
    cell = cell.strip() or ("0" if column == "robocalls" else "")
    if cell.isascii() and cell.isdigit() and len(cell) <= 10 and int(cell) <= MAX_COUNT:
        return int(cell)
    raise BadCell(f"{column} must be a whole number from 0 to {MAX_COUNT}")
