"""Merging: writes what differs from a staging table into its target table.

On PostgreSQL a merge is one transaction: others see all of it, or nothing. On SQLite, where searches write too, a
transaction has at most CHUNK_ROWS rows and is followed by a pause; all rows of one number change in one transaction, so
that a search, which is for one number, sees all of them or none. If interrupted there, the merged rows stay, and the
same import again does the rest.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from core.db import yield_to_writers
from lookup.imports import staging
from lookup.imports.progress import OnProgress, ignore_progress
from lookup.imports.staging import StagingTables, staging_tables

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
        operator = staging.backend().differs
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


def import_lock(table: TargetTable) -> AbstractContextManager[None]:
    """Imports into one table take turns: they never deadlock, and each counts what it did. On PostgreSQL what happens
    inside is one transaction."""
    return staging.backend().lock(table.name)


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
        tables.write(table, counts, progress)
    return counts


def _compare(tables: StagingTables, table: TargetTable) -> Counts:
    same = " AND ".join(f"t.{column} = m.{column}" for column in table.key)
    written, known, changed, removed = tables.query(
        f"SELECT count(CASE WHEN m.deleted IS NULL THEN 1 END), count(t.{table.key[0]}), "
        f"count(CASE WHEN t.{table.key[0]} IS NOT NULL AND ({table.differs('t', 'm')}) THEN 1 END), count(m.deleted) "
        f"FROM merged m LEFT JOIN {table.name} t ON m.deleted IS NULL AND {same}"
    )[0]
    return Counts(added=written - known, changed=changed, unchanged=known - changed, removed=removed)


def delete(*, model: type[models.Model], keys: Iterable[Any]) -> int:
    """Delete rows by primary key, in chunks. Returns how many there were."""
    deleted = 0
    for chunk in staging.chunks(keys):
        with transaction.atomic():
            deleted += model._base_manager.filter(pk__in=chunk).delete()[0]
        yield_to_writers()
    return deleted
