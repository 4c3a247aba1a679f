"""Built in: the operator's own contacts, as `import_contacts` and the admin leave them."""

from lookup.answers import Answer, Found, NotFound
from lookup.connectors.table import Table
from lookup.selects import Row, Select


class Directory(Table):
    """Name and place from the contact of that number."""

    fields = frozenset({"name", "location"})
    select = Select(
        "SELECT name, location FROM lookup_contact WHERE number = %s", 2, parameters=lambda number: [int(number)]
    )

    def read(self, row: Row | None) -> Answer:
        if row is None or not any(row):
            return NotFound()
        name, location = row
        return Found(name=name or None, location=location or None)
