"""Imports contacts."""

from typing import Any

from phonebook.imports import CONTACT_FORMATS, Format
from phonebook.imports.pipeline import Import
from phonebook.imports.staging import NOT_DELETED, TargetTable
from phonebook.models import Contact, ImportBatch

CONTACTS = TargetTable(Contact, key=("number",), values=("name", "location", "book"), stamp="updated_at")


class ContactImport(Import):
    """Adds or replaces contacts: one per number, the first in the files. Those from address books become imported ones.

    `region` (ISO 3166-1 alpha-2): where numbers without a plus are dialed.
    """

    kind = ImportBatch.Kind.CONTACTS
    table = CONTACTS
    formats = CONTACT_FORMATS
    columns = {"position": "bigint", "number": "bigint", "name": "text", "location": "text"}
    identity = "number"

    def __init__(self, *, region: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._region = region

    def reader_options(self, format_: Format) -> dict[str, Any]:
        return {"region": self._region}

    def recorded_options(self) -> dict[str, Any]:
        return {**super().recorded_options(), "region": self._region}

    def derive_merged(self, valid: int) -> None:
        self.tables.derive(
            "merged",
            f"SELECT number, name, location, CAST(NULL AS varchar(32)) AS book, {NOT_DELETED} FROM staged "  # noqa: S608
            "ORDER BY number",
        )
