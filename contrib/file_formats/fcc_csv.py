"""Reader of the FCC's table of unwanted calls (opendata.fcc.gov, `vakf-fz8e`), one row per complaint.

Its columns have labels (`Ticket ID`, in rows.csv) or API names (`id`); "Messge" is the FCC's spelling. Only the number,
day, ticket and type of call are read: state and zip are the complainant's, and the advertiser's number is whatever the
complainant was told to call.
"""

import time
from collections.abc import Sequence
from datetime import date

from contrib.file_formats.ftc_csv import parse_nanp_number
from core.text import clean_text
from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import InvalidCell

_TYPES = ("type of call", "type of call or messge", "type of call or message", "type of call or message(s)")
_ROBOCALL = "prerecorded voice"


def _parse_number(text: str) -> int:
    # Digits alone are parsed much faster than 212-555-0142.
    return parse_nanp_number(_text(text).replace("-", ""))


class FCCReader(csv_rows.ComplaintReader):
    required = (("caller id number", "caller_id_number"), ("date of issue", "issue_date"), ("ticket id", "id"))
    optional = ((*_TYPES, *(name.replace(" ", "_") for name in _TYPES)),)
    error = "the first line must name the columns Ticket ID, Date of Issue and Caller ID Number"
    parse_number = staticmethod(_parse_number)

    def complaint(self, cells: Sequence[str]) -> tuple[str, date, int, int, str, str]:
        _, issued, ticket, type_of_call = cells
        # A time may follow: 2021-08-12T00:00:00.000, 08/12/2021 12:00:00 AM.
        day = base.parse_day(_text(issued).partition("T")[0].partition(" ")[0], _parse_date, self.today)
        if not (ticket := clean_text(_text(ticket))):
            raise InvalidCell("no ticket id")
        subject = base.parse_subject(_text(type_of_call))
        return self.source, day, 1, int(subject.casefold().startswith(_ROBOCALL)), subject, ticket


def _text(cell: str) -> str:
    """The FCC writes None for a missing value."""
    text = cell.strip()
    return "" if text.casefold() == "none" else text


def _parse_date(text: str) -> date:
    return date(*time.strptime(text, "%m/%d/%Y")[:3]) if "/" in text else date.fromisoformat(text)
