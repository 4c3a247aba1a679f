"""Many rows into a table: fast, and without keeping searches waiting.

Each chunk is a transaction of its own. Its rows are staged in a temporary table (PostgreSQL: COPY) and merged from
there in one statement, which writes only what differs.
"""

# ruff: noqa: S608 (statements are put together from names in the code; values are bound)

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connection, models, transaction
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

CHUNK_ROWS = 5000
# SQLite has one writer at a time, and one that waits asks again only now and then: it must meet a gap.
SQLITE_PAUSE_S = 0.02
_STAGING = "lookup_staging"

#: Hears how many rows are done.
Progress = Callable[[int], None]


def silent(done: int) -> None:
    """The progress that nobody watches."""


@dataclass(slots=True)
class Counts:
    """What became of the rows."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Where rows go: `key` and `values` name the columns, in the order of a row's items; none of them is null.

    `stamp`: a column that is set to the time of the import in every row that is added or changed.
    """

    model: type[models.Model]
    key: tuple[str, ...]
    values: tuple[str, ...]
    stamp: str | None = None


def upsert(
    *, table: Table, rows: Iterable[Sequence[Any]], dry_run: bool = False, progress: Progress = silent
) -> Counts:
    """Add the rows, or change those that are there under the same key. No key may come twice in the same 5,000 rows.

    `progress` hears how many rows are done after every chunk, which is committed by then. With `dry_run` every chunk
    is rolled back, and the counts say what would have happened.
    """
    counts = Counts()
    for chunk in _chunks(rows):
        with transaction.atomic():
            _merge(table, chunk, counts)
            if dry_run:
                transaction.set_rollback(True)
        progress(counts.added + counts.changed + counts.unchanged)
        _pause()
    return counts


def delete(*, model: type[models.Model], keys: Iterable[Any]) -> int:
    """Delete rows by primary key, in chunks. Returns how many there were."""
    deleted = 0
    for chunk in _chunks(keys):
        with transaction.atomic():
            deleted += model._base_manager.filter(pk__in=chunk).delete()[0]
        _pause()
    return deleted


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk


def _pause() -> None:
    if connection.vendor == "sqlite":
        time.sleep(SQLITE_PAUSE_S)


def _merge(table: Table, rows: list[Sequence[Any]], counts: Counts) -> None:
    target = table.model._meta.db_table
    columns = ", ".join(table.key + table.values)
    key = ", ".join(table.key)
    same_key = " AND ".join(f"{_STAGING}.{column} = {target}.{column}" for column in table.key)
    updates = [f"{column} = excluded.{column}" for column in table.values]
    differs = " OR ".join(f"{target}.{column} <> excluded.{column}" for column in table.values)
    inserted, selected, parameters = columns, columns, []
    if table.stamp:
        inserted, selected = f"{columns}, {table.stamp}", f"{columns}, %s"
        updates.append(f"{table.stamp} = excluded.{table.stamp}")
        parameters = [connection.ops.adapt_datetimefield_value(timezone.now())]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # Two imports at once take turns: they never deadlock, and each counts what it did.
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [target])
        cursor.execute(f"CREATE TEMPORARY TABLE {_STAGING} AS SELECT {columns} FROM {target} WHERE 1 = 0")
        _stage(cursor, columns, rows)
        cursor.execute(f"SELECT count(*) FROM {_STAGING} JOIN {target} ON {same_key}")
        known = cursor.fetchone()[0]
        cursor.execute(
            f"INSERT INTO {target} ({inserted}) SELECT {selected} FROM {_STAGING} WHERE 1 = 1 ORDER BY {key} "
            f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(updates)} WHERE {differs}",
            parameters,
        )
        added, written = len(rows) - known, cursor.rowcount
        cursor.execute(f"DROP TABLE {_STAGING}")
    counts.added += added
    counts.changed += written - added
    counts.unchanged += len(rows) - written


def _stage(cursor: CursorWrapper, columns: str, rows: list[Sequence[Any]]) -> None:
    if connection.vendor == "postgresql":
        with cursor.copy(f"COPY {_STAGING} ({columns}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    else:
        marks = ", ".join(["%s"] * len(rows[0]))
        cursor.executemany(f"INSERT INTO {_STAGING} ({columns}) VALUES ({marks})", rows)
