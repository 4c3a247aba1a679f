"""Readers of the service's own CSV formats: a header that names the columns in any order, and one record per number.

Contacts: `number`, and `name`, `location` or both. Complaints: `number`, `day`, `total`, and optionally `robocalls`,
`source` and `subject`.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import date

from core.amounts import whole_number
from core.text import clean_text
from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import InvalidCell
from phonebook.models import MAX_COUNT


def _parse_number(text: str, region: str | None = None) -> int:
    """Parse a number. Without a region it begins with its country code, with or without a plus (this format's rule)."""
    return base.parse_number(text, region, is_coded=region is None)


class PlainContactReader(csv_rows.ContactReader):
    required = (("number",),)
    optional = (("name",), ("location",))
    error = "the first line must name the column number"
    parse_number = staticmethod(_parse_number)

    @classmethod
    def recognizes(cls, begin: Sequence[str]) -> int:
        return 0 if PlainComplaintReader.recognizes(begin) else super().recognizes(begin)

    def contact(self, cells: list[str]) -> tuple[str, list[tuple[str, str, str]]]:
        number, name, location = self.pick(cells)
        name = clean_text(name)
        return name, [(number, name, clean_text(location))]


class PlainComplaintReader(csv_rows.ComplaintReader):
    required = (("number",), ("day",), ("total",))
    optional = (("robocalls",), ("source",), ("subject",))
    error = "the first line must name the columns number, day and total"
    parse_number = staticmethod(_parse_number)

    def complaint(self, cells: Sequence[str]) -> tuple[str, date, int, int, str, str]:
        _, day_text, total_text, robocalls_text, source, subject = cells
        source = base.parse_source(source) if source.strip() else self.source
        day = base.parse_day(day_text, date.fromisoformat, self.today)
        total = _parse_count(total_text, "total")
        robocalls = _parse_count(robocalls_text, "robocalls") if robocalls_text.strip() else 0
        if robocalls > total:
            raise InvalidCell("more robocalls than complaints")
        return source, day, total, robocalls, base.parse_subject(subject), base.WHOLE_COUNT


def _parse_count(text: str, column: str) -> int:
    """Raises InvalidCell."""
    with suppress(ValueError):
        if 0 <= (count := whole_number(text)) <= MAX_COUNT:
            return count
    raise InvalidCell(f"{column} must be a whole number from 0 to {MAX_COUNT}")
