"""Built-in connectors that read one row of a table."""

from abc import abstractmethod

from lookup.answers import Answer
from lookup.combined_query import NumberQuery, NumberRows, Row
from lookup.connectors.base import Connector


class TableConnector(Connector):
    """Local. A search runs its `query` together with others, so `from_row` must not use the database."""

    remote = False
    query: NumberQuery

    @abstractmethod
    def from_row(self, row: Row | None) -> Answer:
        """The answer in the row of `query`; None: there is no row."""

    def read(self, rows: NumberRows) -> Answer:
        """The answer about the rows' number. Raises django.db's errors."""
        return self.from_row(rows.get(self.query))

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        return self.from_row(self.query.row(number))
