"""Built in: spam or unknown, from complaints counted by day. Few complaints, or none, clear no number."""

from datetime import UTC, date, datetime, timedelta

from django.conf import settings

from lookup.answers import Answer, Found, NotFound
from lookup.connectors.table import Table
from lookup.selects import Row, Select

# A total of 0 is a source's correction: it takes the complaint back, and leaves no record.
_SUM = """
SELECT sum(CASE WHEN day > %s THEN total ELSE 0 END) AS total FROM lookup_complaintday WHERE number = %s AND total > 0
"""


def _parameters(number: str) -> tuple[date, int]:
    return datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_WINDOW_DAYS), int(number)


class Complaints(Table):
    """Spam when COMPLAINT_THRESHOLD complaints or more fall into the last COMPLAINT_WINDOW_DAYS days, today included.

    Days are UTC's. With fewer, or older ones only, nothing is known: never "not spam".
    """

    fields = frozenset({"spam"})
    select = Select(_SUM, 1, _parameters)

    def read(self, row: Row | None) -> Answer:
        return NotFound() if row is None or row[0] < settings.COMPLAINT_THRESHOLD else Found(spam=True)
