"""Built in: spam or not, from complaints counted by day. A number that nobody reported is unknown, never "not spam"."""

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection

from lookup.answers import Answer, Found, NotFound
from lookup.connectors.base import Connector

# A total of 0 is a source's correction: it takes the complaint back, and leaves no record.
_SUM = """
SELECT sum(CASE WHEN day > %s THEN total ELSE 0 END) FROM lookup_complaintday WHERE number = %s AND total > 0
"""


class Complaints(Connector):
    """Spam when COMPLAINT_THRESHOLD complaints or more fall into the last COMPLAINT_WINDOW_DAYS days, today included.

    Days are UTC's. With older complaints only, the answer is "not spam". One SQL statement a lookup.
    """

    fields = frozenset({"spam"})
    remote = False

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        last_day_outside = datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_WINDOW_DAYS)
        with connection.cursor() as cursor:
            cursor.execute(_SUM, [last_day_outside, int(number)])
            total = cursor.fetchone()[0]
        if total is None:
            return NotFound()
        return Found(spam=total >= settings.COMPLAINT_THRESHOLD)
