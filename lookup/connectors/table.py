"""Built-in sources that are a table: one row of one statement is the answer."""

from abc import abstractmethod

from lookup.answers import Answer
from lookup.connectors.base import Connector
from lookup.selects import Row, Select


class Table(Connector):
    """Local. A search reads several of these at once (lookup.search), so `read` must do without the database."""

    remote = False
    select: Select

    @abstractmethod
    def read(self, row: Row | None) -> Answer:
        """What the row says; None: there is none."""

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        return self.read(self.select.row(number))
