"""Reader of the FCC's table of unwanted calls (opendata.fcc.gov, `vakf-fz8e`), one row per complaint.

Its columns have labels (`Ticket ID`, in rows.csv) or API names (`id`); "Messge" is the FCC's spelling. Only the number,
day, ticket and type of call are read: state and zip are the complainant's, and the advertiser's number is whatever the
complainant was told to call.
"""

import time
from datetime import date
from typing import Any

from core.text import clean_text
from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import InvalidCell
from phonebook.imports.readers.ftc_csv import parse_nanp_number

SOURCE = "fcc"

_TYPES = ("type of call", "type_of_call")
_ROBOCALL = "prerecorded voice"


class FCCReader(csv_rows.ComplaintReader):
    required = (("caller id number", "caller_id_number"), ("date of issue", "issue_date"), ("ticket id", "id"))
    error = "the first line must name the columns Ticket ID, Date of Issue and Caller ID Number"
    multiline = True  # zip locations contain a line break before the coordinates

    def __init__(self, header: csv_rows.Header, **options: Any) -> None:
        super().__init__(header, **options)
        self._type = header.index(*(column for column in header.columns if column.startswith(_TYPES)))

    def number(self, cells: list[str]) -> int:
        # Digits alone are parsed much faster than 212-555-0142.
        return parse_nanp_number(_text(cells[self.columns[0]]).replace("-", ""))

    def complaint(self, cells: list[str]) -> tuple[str, date, int, int, str, str]:
        _, issued, ticket_at = self.columns
        # A time may follow: 2021-08-12T00:00:00.000, 08/12/2021 12:00:00 AM.
        day = base.parse_day(_text(cells[issued]).partition("T")[0].partition(" ")[0], _parse_date, self.today)
        if not (ticket := clean_text(_text(cells[ticket_at]))):
            raise InvalidCell("no ticket id")
        subject = base.parse_subject(_text(cells[self._type]))
        return self.source, day, 1, int(subject.casefold().startswith(_ROBOCALL)), subject, ticket


def _text(cell: str) -> str:
    """The FCC writes None for a missing value."""
    text = cell.strip()
    return "" if text.casefold() == "none" else text


def _parse_date(text: str) -> date:
    return date(*time.strptime(text, "%m/%d/%Y")[:3]) if "/" in text else date.fromisoformat(text)
