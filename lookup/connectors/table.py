"""Built-in connectors that read one row of a table."""

from abc import abstractmethod

from core.database import Row
from lookup.answers import Answer
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
        return self.from_row(await self.query.row(number))
