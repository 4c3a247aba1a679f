"""Built in: spam or not, from complaints counted by day. A number that nobody reported is unknown, never "not spam"."""

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

    Days are UTC's. With older complaints only, the answer is "not spam".
    """

    fields = frozenset({"spam"})
    select = Select(_SUM, 1, _parameters)

    def read(self, row: Row | None) -> Answer:
        return NotFound() if row is None else Found(spam=row[0] >= settings.COMPLAINT_THRESHOLD)
