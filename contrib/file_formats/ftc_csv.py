"""Reader of the FTC's daily file of Do Not Call complaints, `DNC_Complaint_Numbers_YYYY-MM-DD.csv`.

Each row is one complaint. Its day is that of `Created_Date`, by which the FTC splits its files; the call itself
(`Violation_Date`) may be much earlier. The number is unverified, and callers can spoof it. The consumer's city, state
and area code are the complainant's, not the caller's, and are not read.
"""

from collections.abc import Sequence
from datetime import date

from phonebook.imports.readers import base, csv_rows
from phonebook.imports.readers.base import InvalidCell

_NO_SUBJECT = "no subject provided"


def parse_nanp_number(text: str) -> int:
    """A number of the North American Numbering Plan, with or without its 1. Raises InvalidCell."""
    number = base.parse_number(text, "US")
    if number // 10**10 != 1:
        raise InvalidCell("number does not fit its country's numbering plan")
    return number


class FTCReader(csv_rows.ComplaintReader):
    required = (("company_phone_number",), ("created_date",))
    optional = (("subject",), ("recorded_message_or_robocall",))
    error = "the first line must name the columns company_phone_number and created_date"
    parse_number = staticmethod(parse_nanp_number)

    def complaint(self, cells: Sequence[str]) -> tuple[str, date, int, int, str, str]:
        _, created, subject, robocall = cells
        day = base.parse_day(created.strip().partition(" ")[0], date.fromisoformat, self.today)
        about = base.parse_subject(subject)
        if about.casefold() == _NO_SUBJECT:
            about = ""
        return self.source, day, 1, int(robocall.strip() in ("Y", "y")), about, ""
