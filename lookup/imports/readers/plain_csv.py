"""Readers of the service's own CSV formats: a header that names the columns in any order, and one row per line.

Contacts: `number`, and `name`, `location` or both. Complaints: `number`, `day`, `total`, and optionally `robocalls`,
`source` and `subject`.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache

from lookup import numbers
from lookup.answers import clean_text
from lookup.imports.readers import base, csv_rows
from lookup.imports.readers.base import ComplaintRow, ContactRow, InvalidCell, Rejected, UnreadableFile
from lookup.models import MAX_COUNT

_CONTACT_COLUMNS = ("number", "name", "location")
_COMPLAINT_COLUMNS = ("number", "day", "total", "robocalls", "source", "subject")


def _has_contacts(header: csv_rows.Header) -> bool:
    return "number" in header.columns


def _has_complaints(header: csv_rows.Header) -> bool:
    return {"number", "day", "total"} <= set(header.columns)


recognizes_contacts = csv_rows.recognizer(lambda header: _has_contacts(header) and not _has_complaints(header))
recognizes_complaints = csv_rows.recognizer(_has_complaints)


def read_contacts(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """`region`: where numbers without a plus are dialed; None: they begin with their country code. Raises
    UnreadableFile."""
    header, first = csv_rows.read_header(lines, _has_contacts, "the first line must name the column number")
    number_at, name_at, location_at = _indexes(header, _CONTACT_COLUMNS)
    clean_location = lru_cache(maxsize=4096)(clean_text)  # few locations differ
    for row in csv_rows.rows(lines, header, line=first):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row[0], header.padded(row[1])
        try:
            number = _parse_number(cells[number_at], region)
        except InvalidCell as error:
            yield Rejected(line, str(error))
            continue
        name, location = clean_text(cells[name_at]), clean_location(cells[location_at])
        if name or location:
            yield line, number, name, location
        else:
            yield base.rejected(line, base.NO_NAME_OR_LOCATION, number)


def read_complaints(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`source` applies to rows that name none. Raises UnreadableFile."""
    error = "the first line must name the columns number, day and total"
    header, first = csv_rows.read_header(lines, _has_complaints, error)
    number_at, day_at, total_at, robocalls_at, source_at, subject_at = _indexes(header, _COMPLAINT_COLUMNS)
    for row in csv_rows.rows(lines, header, line=first):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row[0], header.padded(row[1])
        number = None
        try:
            number = _parse_number(cells[number_at], None)
            row_source = base.parse_source(cells[source_at]) if cells[source_at].strip() else source
            day = base.parse_day(cells[day_at], date.fromisoformat, today)
            total = _parse_count(cells[total_at], "total")
            robocalls = _parse_count(cells[robocalls_at], "robocalls") if cells[robocalls_at].strip() else 0
            if robocalls > total:
                raise InvalidCell("more robocalls than complaints")
        except InvalidCell as invalid:
            yield base.rejected(line, invalid, number)
            continue
        subject = base.parse_subject(cells[subject_at])
        yield line, number, row_source, day, total, robocalls, subject, base.WHOLE_COUNT


def _parse_number(text: str, region: str | None) -> int:
    """Parse a number. Without a region it begins with its country code, with or without a plus (this format's rule)."""
    if region is None and text.isascii() and text.isdigit() and numbers.in_plan(text):
        return int(text)
    has_country_code = region is None and "+" not in text and text.strip()[:1] in set("(0123456789")
    return base.parse_number(f"+{text.strip()}" if has_country_code else text, region)


def _indexes(header: csv_rows.Header, columns: Sequence[str]) -> list[int]:
    """Raises UnreadableFile."""
    if any(header.columns.count(column) > 1 for column in columns):
        raise UnreadableFile("the first line names a column twice")
    return [header.index(column) for column in columns]


@lru_cache(maxsize=4096)
def _parse_count(text: str, column: str) -> int:
    """Raises InvalidCell."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_COUNT:
        return int(text)
    raise InvalidCell(f"{column} must be a whole number from 0 to {MAX_COUNT}")
