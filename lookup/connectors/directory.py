"""Built-in connector `directory`: the operator's contacts, from `import_contacts` and the admin."""

from core.database import Row
from lookup.answers import Answer, Found, NotFound
from lookup.connectors.table import TableConnector
from phonebook.number_query import NumberQuery


class Directory(TableConnector):
    """Name and place of the number's contact."""

    fields = frozenset({"name", "location"})
    query = NumberQuery("SELECT name, location FROM phonebook_contact WHERE number = %s", 2)

    def from_row(self, row: Row | None) -> Answer:
        if row is None or not any(row):
            return NotFound()
        name, location = row
        return Found(name=name or None, location=location or None)
