"""Built-in connector `complaints`: spam or unknown, from daily complaint counts. Few or no complaints never mean "not
spam"."""

from datetime import UTC, date, datetime, timedelta

from django.conf import settings

from core.database import Row
from lookup.answers import Answer, Found, NotFound
from lookup.connectors.table import TableConnector
from phonebook.number_query import NumberQuery

# A total of 0 is a correction by the data's publisher: the complaint is withdrawn and must not count as a record.
_SUM = """
SELECT sum(CASE WHEN day > %s THEN total ELSE 0 END) AS total
FROM phonebook_complaintday WHERE number = %s AND total > 0
"""


def _parameters(number: str) -> tuple[date, int]:
    return datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_WINDOW_DAYS), int(number)


class Complaints(TableConnector):
    """Spam when there are COMPLAINT_THRESHOLD complaints or more in the last COMPLAINT_WINDOW_DAYS days (UTC, including
    today); otherwise NotFound."""

    fields = frozenset({"spam"})
    query = NumberQuery(_SUM, 1, _parameters)

    def from_row(self, row: Row | None) -> Answer:
        return NotFound() if row is None or row[0] < settings.COMPLAINT_THRESHOLD else Found(spam=True)
