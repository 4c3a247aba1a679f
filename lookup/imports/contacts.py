"""Imports contacts."""

from lookup.imports import formats, merging
from lookup.imports.files import TextFile
from lookup.imports.merging import NOT_DELETED, TargetTable
from lookup.imports.progress import ImportProgress
from lookup.imports.readers.base import with_file_name
from lookup.imports.row_filter import ImportResult, OnReject, RowFilter
from lookup.imports.staging import staging_tables
from lookup.models import Contact

CONTACTS = TargetTable(Contact, key=("number",), values=("name", "location", "book"), stamp="updated_at")


def import_contacts(
    *,
    file: TextFile,
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
    observer, rows = observer or ImportProgress(), RowFilter(on_reject)
    with staging_tables() as tables, with_file_name(file.name):
        chosen = format_name or formats.recognize(formats.CONTACTS, file.first_line)
        observer.reading(file)
        read = formats.CONTACTS[chosen].read(file.lines, region=region)
        valid = tables.fill("staged", _COLUMNS, rows.valid_rows(file, read), observer.read)
        rows.require_valid_rows(valid)
        with merging.import_lock(CONTACTS):
            valid -= rows.drop_newly_suppressed(tables)
            unique = tables.derive("merged", _FIRST_OF_EACH_NUMBER)
            repeated = rows.report_repeated(tables, "number") if unique < valid else 0
            observer.merging(unique, in_parts=tables.merges_in_parts)
            counts = merging.merge(tables=tables, table=CONTACTS, dry_run=dry_run, progress=observer.merged)
        if not dry_run:
            observer.finished()
    return rows.result(counts, valid=valid, formats=[chosen], repeated=repeated)


_COLUMNS = {"position": "bigint", "number": "bigint", "name": "text", "location": "text"}
_FIRST_OF_EACH_NUMBER = f"""
SELECT number, name, location, CAST(NULL AS varchar(32)) AS book, {NOT_DELETED}
FROM (
    SELECT number, name, location, row_number() OVER (PARTITION BY number ORDER BY position) AS nth FROM staged
) numbered
WHERE nth = 1 ORDER BY number
"""  # noqa: S608
