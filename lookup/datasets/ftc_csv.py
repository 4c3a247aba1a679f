"""Reader of the FTC's daily file of Do Not Call complaints, `DNC_Complaint_Numbers_YYYY-MM-DD.csv`.

Each row is one complaint. Its day is that of `Created_Date`, by which the FTC cuts its files; `Violation_Date`, when
the call came, lies before it, by any time. Nobody has checked the number, and a caller can forge it. The consumer's
city, state and area code are the complainant's, not the caller's, and are not read.
"""

from collections.abc import Iterator
from datetime import date
from functools import lru_cache

from lookup.answers import clean_text
from lookup.datasets import csv_rows, reading
from lookup.datasets.reading import BadCell, ComplaintRow, Rejected, Unreadable

SOURCE = "ftc"

_PHONE, _CREATED, _SUBJECT = "company_phone_number", "created_date", "subject"
_ROBOCALL = "recorded_message_or_robocall"
_NO_SUBJECT = "no subject provided"


def recognises(first_line: str) -> bool:
    found = csv_rows.header(first_line)
    return found is not None and {_PHONE, _CREATED} <= set(found.columns)


def read(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected]:
    """`today` is UTC's. Raises Unreadable."""
    header, line = csv_rows.read_header(lines)
    phone, created = header.find(_PHONE), header.find(_CREATED)
    if phone is None or created is None:
        raise Unreadable(f"the first line must name the columns {_PHONE} and {_CREATED}")
    about, robocall = header.index(_SUBJECT), header.index(_ROBOCALL)
    for row in csv_rows.rows(lines, header, line=line):
        if isinstance(row, Rejected):
            yield row
            continue
        line, cells = row
        cells = header.filled(cells)
        number = None
        try:
            number = nanp_number(cells[phone])
            day = reading.day(cells[created].strip().partition(" ")[0], date.fromisoformat, today)
        except BadCell as error:
            yield reading.rejected(line, error, number)
            continue
        robocalls = 1 if cells[robocall].strip() in ("Y", "y") else 0
        yield line, number, source, day, 1, robocalls, subject(cells[about]), ""


def nanp_number(cell: str) -> int:
    """A number of the North American Numbering Plan, with or without its 1. Raises BadCell."""
    number = reading.number(cell, "US")
    if number // 10**10 != 1:
        raise BadCell("number does not fit its country's numbering plan")
    return number


@lru_cache(maxsize=1024)
def subject(cell: str) -> str:
    """What a complaint is about, in a regulator's words, of which some have two spaces in a row; empty for unknown."""
    text = clean_text(cell)[: reading.MAX_SUBJECT].rstrip()
    return "" if text.casefold() == _NO_SUBJECT else text
