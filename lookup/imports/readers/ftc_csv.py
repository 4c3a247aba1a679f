"""Reader of the FTC's daily file of Do Not Call complaints, `DNC_Complaint_Numbers_YYYY-MM-DD.csv`.

Each row is one complaint. Its day is that of `Created_Date`, by which the FTC splits its files; the call itself
(`Violation_Date`) may be much earlier. The number is unverified, and callers can spoof it. The consumer's city, state
and area code are the complainant's, not the caller's, and are not read.
"""

from collections.abc import Iterator
from datetime import date

from lookup.imports.readers import base, csv_rows
from lookup.imports.readers.base import ComplaintRow, InvalidCell, Rejected

SOURCE = "ftc"

_PHONE, _CREATED, _SUBJECT = "company_phone_number", "created_date", "subject"
_ROBOCALL = "recorded_message_or_robocall"
_NO_SUBJECT = "no subject provided"


def _matches(header: csv_rows.Header) -> bool:
    return {_PHONE, _CREATED} <= set(header.columns)


recognizes = csv_rows.recognizer(_matches)


def read(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`today` is in UTC. Raises UnreadableFile."""
    error = f"the first line must name the columns {_PHONE} and {_CREATED}"
    header, line = csv_rows.read_header(lines, _matches, error)
    phone, created, subject, robocall = map(header.index, (_PHONE, _CREATED, _SUBJECT, _ROBOCALL))
    for row in csv_rows.rows(lines, header, line=line):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row[0], header.padded(row[1])
        number = None
        try:
            number = parse_nanp_number(cells[phone])
            day = base.parse_day(cells[created].strip().partition(" ")[0], date.fromisoformat, today)
        except InvalidCell as invalid:
            yield base.rejected(line, invalid, number)
            continue
        about = base.parse_subject(cells[subject])
        if about.casefold() == _NO_SUBJECT:
            about = ""
        yield line, number, source, day, 1, int(cells[robocall].strip() in ("Y", "y")), about, ""


def parse_nanp_number(text: str) -> int:
    """A number of the North American Numbering Plan, with or without its 1. Raises InvalidCell."""
    number = base.parse_number(text, "US")
    if number // 10**10 != 1:
        raise InvalidCell("number does not fit its country's numbering plan")
    return number
