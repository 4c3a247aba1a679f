"""Reader of the FCC's table of unwanted calls (opendata.fcc.gov, `vakf-fz8e`), one row per complaint.

Its columns have labels (`Ticket ID`, in rows.csv) or API names (`id`); "Messge" is the FCC's spelling. Only the number,
day, ticket and type of call are read: state and zip are the complainant's, and the advertiser's number is whatever the
complainant was told to call.
"""

import re
from collections.abc import Iterator
from datetime import date

from lookup.answers import clean_text
from lookup.imports.readers import base, csv_rows
from lookup.imports.readers.base import ComplaintRow, InvalidCell, Rejected
from lookup.imports.readers.ftc_csv import parse_nanp_number

SOURCE = "fcc"

_REQUIRED = (("ticket id", "id"), ("date of issue", "issue_date"), ("caller id number", "caller_id_number"))
_TYPES = ("type of call", "type_of_call")
_ROBOCALL = "prerecorded voice"
_LABEL_DATE = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})")
_ERROR = "the first line must name the columns Ticket ID, Date of Issue and Caller ID Number"


def _matches(header: csv_rows.Header) -> bool:
    return all(header.find(*names) is not None for names in _REQUIRED)


recognizes = csv_rows.recognizer(_matches)


def read(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`today` is in UTC. Quoted zip locations contain a line break before the coordinates. Raises UnreadableFile."""
    header, line = csv_rows.read_header(lines, _matches, _ERROR)
    ticket, issued, phone = (header.index(*names) for names in _REQUIRED)
    type_of_call = header.index(*(column for column in header.columns if column.startswith(_TYPES)))
    for row in csv_rows.rows(lines, header, multiline=True, line=line):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row[0], header.padded(row[1])
        number = None
        try:
            # Digits alone are parsed much faster than 212-555-0142.
            number = parse_nanp_number(_text(cells[phone]).replace("-", ""))
            # A time may follow: 2021-08-12T00:00:00.000, 08/12/2021 12:00:00 AM.
            day = base.parse_day(_text(cells[issued]).partition("T")[0].partition(" ")[0], _parse_date, today)
            if not (ticket_id := clean_text(_text(cells[ticket]))):
                raise InvalidCell("no ticket id")
        except InvalidCell as error:
            yield base.rejected(line, error, number)
            continue
        subject = base.parse_subject(_text(cells[type_of_call]))
        yield line, number, source, day, 1, int(subject.casefold().startswith(_ROBOCALL)), subject, ticket_id


def _text(cell: str) -> str:
    """The FCC writes None for a missing value."""
    text = cell.strip()
    return "" if text.casefold() == "none" else text


def _parse_date(text: str) -> date:
    if match := _LABEL_DATE.fullmatch(text):
        month, day, year = map(int, match.groups())
        return date(year, month, day)
    return date.fromisoformat(text)
