"""Imports contacts."""

from contextlib import AbstractContextManager

from phonebook.imports import formats
from phonebook.imports.files import TextFile
from phonebook.imports.progress import ImportProgress
from phonebook.imports.reading import FileReader, ImportResult, OnReject
from phonebook.imports.staging import NOT_DELETED, Tables, TargetTable
from phonebook.models import Contact

CONTACTS = TargetTable(Contact, key=("number",), values=("name", "location", "book"), stamp="updated_at")


def import_contacts(
    *,
    file: AbstractContextManager[TextFile],
    on_reject: OnReject,
    format_name: str | None = None,
    region: str | None = None,
    dry_run: bool = False,
    observer: ImportProgress | None = None,
) -> ImportResult:
    """Add or replace contacts: one per number, the first in the file. Those from address books become imported ones.

    `format_name`: a key of formats.CONTACTS; None: recognized. `region` (ISO 3166-1 alpha-2): where numbers without a
    plus are dialed. Raises UnreadableFile, with nothing changed, if the file cannot be read or all rows are rejected.
    """
    observer = observer or ImportProgress()
    reader = FileReader(on_reject, observer)
    with Tables() as tables:
        rows = reader.rows([file], formats.CONTACTS, format_name, lambda _: {"region": region})
        staged = tables.fill("staged", _COLUMNS, rows, observer.read)
        with tables.lock(CONTACTS):
            valid = reader.finish(tables, staged)
            unique = tables.derive("merged", _FIRST_OF_EACH_NUMBER)
            if unique < valid:
                reader.report_repeated(tables, "number")
            tables.merge(CONTACTS, reader.result, observer, dry_run=dry_run)
        if not dry_run:
            observer.finished()
    return reader.result


_COLUMNS = {"position": "bigint", "number": "bigint", "name": "text", "location": "text"}
_FIRST_OF_EACH_NUMBER = f"""
SELECT number, name, location, CAST(NULL AS varchar(32)) AS book, {NOT_DELETED}
FROM (
    SELECT number, name, location, row_number() OVER (PARTITION BY number ORDER BY position) AS nth FROM staged
) numbered
WHERE nth = 1 ORDER BY number
"""  # noqa: S608
