"""Merging: writes what differs from a staging table into its target table.

On PostgreSQL a merge is one transaction: others see all of it, or nothing. On SQLite, where searches write too, a
transaction has at most CHUNK_ROWS rows and is followed by a pause; all rows of one number change in one transaction, so
that a search, which is for one number, sees all of them or none. If interrupted there, the merged rows stay, and the
same import again does the rest.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from core.db import yield_to_writers
from lookup.imports import staging
from lookup.imports.progress import OnProgress, ignore_progress
from lookup.imports.staging import StagingTables, staging_tables

# About 100,000 rows, after which progress is reported.
_PAGES = 1000

#: For the rows of `merge` that are to be written.
NOT_DELETED = "CAST(NULL AS bigint) AS deleted"


@dataclass(slots=True)
class Counts:
    """Numbers of rows that a merge changed."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.unchanged + self.removed


@dataclass(slots=True)
class ReadCounts(Counts):
    """`read`: valid and rejected rows. `repeated`: skipped, because an earlier row has the same number (complaints: the
    same ticket, or number and day). `rejected`: by reason."""

    read: int = 0
    repeated: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """`key` and `values` name the columns, in the order of a row's items. `stamp`: a column that is set to the time of
    the import in every row that is added or changed."""

    model: type[models.Model]
    key: tuple[str, ...]
    values: tuple[str, ...]
    stamp: str | None = None

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @property
    def columns(self) -> str:
        return ", ".join(self.key + self.values)

    def differs(self, one: str, other: str) -> str:
        """SQL: whether two rows with the same key have different values."""
        operator = "IS DISTINCT FROM" if connection.vendor == "postgresql" else "IS NOT"
        return " OR ".join(f"{one}.{column} {operator} {other}.{column}" for column in self.values)

    def delete_statement(self, where: str) -> str:
        deleted = f"SELECT deleted FROM merged WHERE deleted IS NOT NULL AND {where}"
        return f"DELETE FROM {self.name} WHERE {self.model._meta.pk.column} IN ({deleted})"

    def upsert_statement(self, where: str, *, all_new: bool = False) -> str:
        """Adds or changes what differs from `merged`. The first parameter is the stamp, if the table has one. Without
        the conflicts of `all_new`, PostgreSQL takes a third less time."""
        inserted, selected, updated = self.columns, self.columns, self.values
        if self.stamp:
            inserted, selected = f"{inserted}, {self.stamp}", f"{selected}, %s"
            updated = (*updated, self.stamp)
        assignments = ", ".join(f"{column} = excluded.{column}" for column in updated)
        rows = f"SELECT {selected} FROM merged WHERE deleted IS NULL AND {where}"
        statement = f"INSERT INTO {self.name} ({inserted}) {rows}"
        if not all_new:
            statement += f" ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {assignments} "
            statement += f"WHERE {self.differs(self.name, 'excluded')}"
        return statement

    def stamp_parameters(self) -> list[Any]:
        return [connection.ops.adapt_datetimefield_value(timezone.now())] if self.stamp else []


@contextmanager
def import_lock(table: TargetTable) -> Iterator[None]:
    """Imports into one table take turns: they never deadlock, and each counts what it did. On PostgreSQL what happens
    inside is one transaction."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"import into {table.name}"])
            yield
        return
    # A separate file: closing one of the database's would release SQLite's own locks in this process. Readable by all,
    # in case root was the first to import.
    path = Path(connection.settings_dict["NAME"]).with_name(f"{table.name}.lock")
    with open(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def upsert(
    *,
    table: TargetTable,
    rows: Iterable[Sequence[Any]],
    dry_run: bool = False,
    progress: OnProgress = ignore_progress,
) -> Counts:
    """Add the rows, or change the ones with the same key. No key may occur twice."""
    with staging_tables() as tables:
        field = table.model._meta.get_field
        types = {column: str(field(column).db_type(connection)) for column in table.key + table.values}
        tables.fill("staged", types, rows)
        with import_lock(table):
            tables.derive("merged", f"SELECT {table.columns}, {NOT_DELETED} FROM staged ORDER BY {table.key[0]}")
            return merge(tables=tables, table=table, dry_run=dry_run, progress=progress)


def merge(
    *, tables: StagingTables, table: TargetTable, dry_run: bool = False, progress: OnProgress = ignore_progress
) -> Counts:
    """Merge the staging table `merged` into `table`. With `dry_run`, only count.

    `merged` has the columns of `table` and `deleted`, and is sorted by the first column. If `deleted` is NULL, the row
    is written, and its key occurs once; otherwise `deleted` is the primary key of a row to delete.
    """
    counts = _compare(tables, table)
    if not dry_run and counts.rows > counts.unchanged:
        if connection.vendor == "postgresql":
            all_new = not (counts.changed or counts.unchanged)
            try:
                _write_at_once(tables, table, counts, progress, all_new=all_new)
            except IntegrityError:  # somebody added one of the keys since
                if not all_new:
                    raise
                _write_at_once(tables, table, counts, progress, all_new=False)
        else:
            _write_in_chunks(tables, table, counts, progress)
    return counts


def _compare(tables: StagingTables, table: TargetTable) -> Counts:
    same = " AND ".join(f"t.{column} = m.{column}" for column in table.key)
    written, known, changed, removed = tables.query(
        f"SELECT count(CASE WHEN m.deleted IS NULL THEN 1 END), count(t.{table.key[0]}), "
        f"count(CASE WHEN t.{table.key[0]} IS NOT NULL AND ({table.differs('t', 'm')}) THEN 1 END), count(m.deleted) "
        f"FROM merged m LEFT JOIN {table.name} t ON m.deleted IS NULL AND {same}"
    )[0]
    return Counts(added=written - known, changed=changed, unchanged=known - changed, removed=removed)


def _write_at_once(
    tables: StagingTables, table: TargetTable, counts: Counts, progress: OnProgress, *, all_new: bool
) -> None:
    """Write in one transaction, by pages of the staging table, so that progress can be reported."""
    size = tables.query("SELECT pg_relation_size('merged') / 8192")[0][0]
    upsert = table.upsert_statement("ctid >= %s::tid AND ctid < %s::tid", all_new=all_new)
    with transaction.atomic():
        if counts.removed:
            tables.execute(table.delete_statement("TRUE"))
        for first in range(0, size, _PAGES):
            tables.execute(upsert, [*table.stamp_parameters(), f"({first},0)", f"({first + _PAGES},0)"])
            progress(counts.rows * min(first + _PAGES, size) // size)
        tables.execute(f"ANALYZE {table.name}")


def _write_in_chunks(tables: StagingTables, table: TargetTable, counts: Counts, progress: OnProgress) -> None:
    """Each chunk ends before the number that it would split; a number with more rows than a chunk is split."""
    upsert = table.upsert_statement("rowid BETWEEN %s AND %s")
    delete = table.delete_statement("rowid BETWEEN %s AND %s")
    number, first = table.key[0], 1
    while first <= counts.rows:
        last = min(first + staging.CHUNK_ROWS - 1, counts.rows)
        split = tables.query(
            f"SELECT min(rowid) FROM merged WHERE rowid BETWEEN %s AND %s "
            f"AND {number} = (SELECT {number} FROM merged WHERE rowid = %s)",
            [first, last, last + 1],
        )[0][0]
        if split and split > first:
            last = split - 1
        with transaction.atomic():
            tables.execute(delete, [first, last])
            tables.execute(upsert, [*table.stamp_parameters(), first, last])
        progress(last)
        first = last + 1
        yield_to_writers()


def delete(*, model: type[models.Model], keys: Iterable[Any]) -> int:
    """Delete rows by primary key, in chunks. Returns how many there were."""
    deleted = 0
    for chunk in staging.chunks(keys):
        with transaction.atomic():
            deleted += model._base_manager.filter(pk__in=chunk).delete()[0]
        yield_to_writers()
    return deleted
