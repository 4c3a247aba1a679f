"""Reader of the FCC's table of unwanted calls (opendata.fcc.gov, `vakf-fz8e`), one row for each complaint.

Its columns are named by labels (`Ticket ID`, from rows.csv) or by the API's names (`id`); "Messge" is the FCC's. Only
the number, the day, the ticket and the type of call are read: state and zip are the complainant's, and the advertiser's
number is whatever he was told to call.
"""

import re
from collections.abc import Iterator
from datetime import date

from lookup.answers import clean_text
from lookup.datasets import csv_rows, reading
from lookup.datasets.ftc_csv import nanp_number, subject
from lookup.datasets.reading import BadCell, ComplaintRow, Rejected, Unreadable

SOURCE = "fcc"

_TICKET = ("ticket id", "id")
_ISSUED = ("date of issue", "issue_date")
_PHONE = ("caller id number", "caller_id_number")
_TYPES = ("type of call", "type_of_call")
_ROBOCALL = "prerecorded voice"
_LABEL_DATE = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")


def recognises(first_line: str) -> bool:
    found = csv_rows.header(first_line)
    return found is not None and all(found.find(*names) is not None for names in (_TICKET, _ISSUED, _PHONE))


def read(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`today` is UTC's. The place of a zip, in quotes, has a line break before its coordinates. Raises Unreadable."""
    header, line = csv_rows.read_header(lines)
    ticket, issued, phone = header.find(*_TICKET), header.find(*_ISSUED), header.find(*_PHONE)
    if ticket is None or issued is None or phone is None:
        raise Unreadable("the first line must name the columns Ticket ID, Date of Issue and Caller ID Number")
    type_of_call = header.index(*(column for column in header.columns if column.startswith(_TYPES)))
    for row in csv_rows.rows(lines, header, multiline=True, line=line):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row
        cells = header.filled(cells)
        number = None
        try:
            # Nothing but digits is read much faster than 212-555-0142, and is the same number.
            number = nanp_number(_text(cells[phone]).replace("-", ""))
            # A time may follow the day: 2021-08-12T00:00:00.000, 08/12/2021 12:00:00 AM.
            day = reading.day(_text(cells[issued]).partition("T")[0].partition(" ")[0], _date, today)
            if not (ticket_id := clean_text(_text(cells[ticket]))):
                raise BadCell("no ticket id")
        except BadCell as error:
            yield reading.rejected(line, error, number)
            continue
        about = subject(_text(cells[type_of_call]))
        robocalls = 1 if about[: len(_ROBOCALL)].casefold() == _ROBOCALL else 0
        yield line, number, source, day, 1, robocalls, about, ticket_id


def _text(cell: str) -> str:
    """The FCC writes None for what is missing."""
    text = cell.strip()
    return "" if text.casefold() == "none" else text


def _date(text: str) -> date:
    if match := _LABEL_DATE.fullmatch(text):
        month, day, year = map(int, match.groups())
        return date(year, month, day)
    return date.fromisoformat(text)
