"""Built-in connectors that read one row of a table: `directory` and `complaints`."""

from abc import abstractmethod
from datetime import UTC, datetime, timedelta

from django.conf import settings

from core.db import Row
from lookup.answers import Answer, Found, NotFound
from lookup.connectors.base import Connector
from phonebook.number_query import NumberQuery, NumberRows


class TableConnector(Connector):
    """Local. A search runs its `query` together with others, so `from_row` must not use the database."""

    remote = False
    query: NumberQuery

    @abstractmethod
    def from_row(self, row: Row | None) -> Answer:
        """The answer in the row of `query`; None: there is no row."""

    async def read(self, rows: NumberRows) -> Answer:
        """The answer about the rows' number. Raises django.db's errors."""
        return self.from_row(await rows.get(self.query))

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        return await self.read(NumberRows(number))


class Directory(TableConnector):
    """Name and place of the number's contact, from `import_contacts` and the admin."""

    fields = frozenset({"name", "location"})
    query = NumberQuery("SELECT name, location FROM phonebook_contact WHERE number = %s", 2)

    def from_row(self, row: Row | None) -> Answer:
        if row is None or not any(row):
            return NotFound()
        name, location = row
        return Found(name=name or None, location=location or None)


# A total of 0 is a correction by the data's publisher: the complaint is withdrawn and must not count as a record.
_SUM = """
SELECT sum(CASE WHEN day > %s THEN total ELSE 0 END) AS total
FROM phonebook_complaintday WHERE number = %s AND total > 0
"""


class Complaints(TableConnector):
    """Spam when there are COMPLAINT_THRESHOLD complaints or more in the last COMPLAINT_WINDOW_DAYS days (UTC, including
    today); otherwise NotFound: few or no complaints never mean "not spam"."""

    fields = frozenset({"spam"})
    query = NumberQuery(
        _SUM, 1, lambda number: (datetime.now(UTC).date() - timedelta(settings.COMPLAINT_WINDOW_DAYS), int(number))
    )

    def from_row(self, row: Row | None) -> Answer:
        return NotFound() if row is None or row[0] < settings.COMPLAINT_THRESHOLD else Found(spam=True)
