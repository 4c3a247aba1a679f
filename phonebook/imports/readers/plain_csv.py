"""Readers of the service's own CSV formats: a header that names the columns in any order, and one row per line.

Contacts: `number`, and `name`, `location` or both. Complaints: `number`, `day`, `total`, and optionally `robocalls`,
`source` and `subject`.
"""

from datetime import date
from functools import lru_cache
from typing import Any

from core import numbers
from core.text import clean_text
from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import InvalidCell, UnreadableFile
from phonebook.models import MAX_COUNT


def _parse_number(text: str, region: str | None = None) -> int:
    """Parse a number. Without a region it begins with its country code, with or without a plus (this format's rule)."""
    if region is None and text.isascii() and text.isdigit() and numbers.in_plan(text):
        return int(text)
    has_country_code = region is None and "+" not in text and text.strip()[:1] in set("(0123456789")
    return base.parse_number(f"+{text.strip()}" if has_country_code else text, region)


class _PlainReader(csv_rows.CSVReader):
    """Raises UnreadableFile for a header that names a column twice."""

    parse_number = staticmethod(_parse_number)

    def __init__(self, header: csv_rows.Header, **options: Any) -> None:
        super().__init__(header, **options)
        if any(header.columns.count(name) > 1 for (name,) in (*self.required, *self.optional)):
            raise UnreadableFile("the first line names a column twice")


class PlainContactReader(_PlainReader, csv_rows.ContactReader):
    required = (("number",),)
    optional = (("name",), ("location",))
    error = "the first line must name the column number"

    @classmethod
    def recognizes(cls, first_line: str) -> bool:
        return super().recognizes(first_line) and not PlainComplaintReader.recognizes(first_line)

    def entries(self, cells: list[str]) -> list[tuple[str, str, str]]:
        number, name, location = self.columns
        return [(cells[number], clean_text(cells[name]), _clean_location(cells[location]))]


class PlainComplaintReader(_PlainReader, csv_rows.ComplaintReader):
    required = (("number",), ("day",), ("total",))
    optional = (("robocalls",), ("source",), ("subject",))
    error = "the first line must name the columns number, day and total"

    def complaint(self, cells: list[str]) -> tuple[str, date, int, int, str, str]:
        _, day_at, total_at, robocalls_at, source_at, subject_at = self.columns
        source = base.parse_source(cells[source_at]) if cells[source_at].strip() else self.source
        day = base.parse_day(cells[day_at], date.fromisoformat, self.today)
        total = _parse_count(cells[total_at], "total")
        robocalls = _parse_count(cells[robocalls_at], "robocalls") if cells[robocalls_at].strip() else 0
        if robocalls > total:
            raise InvalidCell("more robocalls than complaints")
        return source, day, total, robocalls, base.parse_subject(cells[subject_at]), base.WHOLE_COUNT


_clean_location = lru_cache(maxsize=4096)(clean_text)  # few locations differ


@lru_cache(maxsize=4096)
def _parse_count(text: str, column: str) -> int:
    """Raises InvalidCell."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_COUNT:
        return int(text)
    raise InvalidCell(f"{column} must be a whole number from 0 to {MAX_COUNT}")
