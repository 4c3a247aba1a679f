"""Many rows into a table: fast, and without keeping searches waiting.

Rows land in temporary tables of this connection, which nobody else sees (PostgreSQL: by COPY), are sorted and made
unique there in SQL, and are merged from there, writing only what differs. On PostgreSQL the merge is one statement in
one transaction: all of it is seen at once, or none. On SQLite, where searches write too, it is done in transactions of
at most CHUNK_ROWS rows with a pause after each; one number's rows change in one transaction, so that a search, which
asks for one number, sees all or nothing of them. Broken off there, what is merged stays, and the same import again
does the rest.
"""

# ruff: noqa: S608 (statements are put together from names in the code; values are bound)

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import connection, models, transaction
from django.utils import timezone

from accounts.sql import one_row
from accounts.turns import let_others_write

CHUNK_ROWS = 5000
# For sorting, in PostgreSQL; one import at a time sorts.
_WORK_MEM = "64MB"
# Some 100,000 rows, after which progress is told.
_PAGES = 1000

#: For the rows of `merge` that are wanted.
NOT_GONE = "CAST(NULL AS bigint) AS gone"

#: Hears how many rows are done.
Progress = Callable[[int], None]


def silent(done: int) -> None:
    """The progress that nobody watches."""


@dataclass(slots=True)
class Counts:
    """What became of the rows. `removed`: rows that were there and are no more."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0

    @property
    def rows(self) -> int:
        """How many there were to merge."""
        return self.added + self.changed + self.unchanged + self.removed


@dataclass(frozen=True, slots=True)
class Table:
    """Where rows go: `key` and `values` name the columns, in the order of a row's items.

    `stamp`: a column that is set to the time of the import in every row that is added or changed.
    """

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

    @property
    def primary_key(self) -> str:
        return str(self.model._meta.pk.column)

    def differs(self, one: str, other: str) -> str:
        """Whether two rows of one key have other values."""
        unlike = "IS DISTINCT FROM" if connection.vendor == "postgresql" else "IS NOT"
        return " OR ".join(f"{one}.{column} {unlike} {other}.{column}" for column in self.values)


# --- Temporary tables ----------------------------------------------------------------------------------------------


class Workbench:
    """The temporary tables and views of one import; they end with it."""

    def __init__(self) -> None:
        self._made: list[tuple[str, str]] = []

    def fill(
        self, name: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]], progress: Progress = silent
    ) -> int:
        """Make the table `name` (`columns`: name → SQL type; none is null) of `rows`. Returns how many there were."""
        self._made.append(("TABLE", name))
        # Sorted by bytes, not by a language's rules, which take several times as long.
        collation = ' COLLATE "C"' if connection.vendor == "postgresql" else ""
        types = ", ".join(f"{column} {kind}{collation * (kind == 'text')}" for column, kind in columns.items())
        _execute(f"CREATE TEMPORARY TABLE {name} ({types})")
        into = f"{name} ({', '.join(columns)})"
        if connection.vendor == "postgresql":
            return _copy(into, len(columns), rows, progress)
        marks = ", ".join(["%s"] * len(columns))
        return _insert(f"INSERT INTO {into} VALUES ({marks})", rows, progress)

    def derive(self, name: str, query: str, parameters: Sequence[Any] = ()) -> int:
        """Make the table `name` of what `query` finds, in its order. Returns the number of its rows."""
        self._made.append(("TABLE", name))
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"SET work_mem = '{_WORK_MEM}'")
            cursor.execute(f"CREATE TEMPORARY TABLE {name} AS {query}", parameters)
            if connection.vendor == "postgresql":
                rows = cursor.rowcount
                cursor.execute(f"ANALYZE {name}")
                cursor.execute("RESET work_mem")
                return rows
        return self.count(name)

    def view(self, name: str, query: str) -> None:
        """As `derive`, where a copy would be no quicker to read."""
        self._made.append(("VIEW", name))
        _execute(f"CREATE TEMPORARY VIEW {name} AS {query}")

    def index(self, name: str, columns: str) -> None:
        """For SQLite, which joins by nothing else; PostgreSQL hashes and sorts."""
        if connection.vendor == "sqlite":
            _execute(f"CREATE INDEX {name}_index ON {name} ({columns})")

    def count(self, name: str) -> int:
        return int(self.ask(f"SELECT count(*) FROM {name}")[0][0])

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """How many rows it concerned."""
        return _execute(statement, parameters)

    def ask(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a query whose answer may be long."""
        with connection.chunked_cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(CHUNK_ROWS):
                yield from rows

    def close(self) -> None:
        for kind, name in reversed(self._made):
            _execute(f"DROP {kind} IF EXISTS {name}")
        self._made.clear()


@contextmanager
def workbench() -> Iterator[Workbench]:
    bench = Workbench()
    if connection.vendor == "postgresql":
        limit = one_row("SELECT current_setting('statement_timeout')", []) or ("0",)  # the service's, or the role's
        _execute("SET statement_timeout = 0")
    try:
        yield bench
    finally:
        # In a transaction that failed nothing can be dropped, and nothing needs to be.
        if not connection.needs_rollback:
            bench.close()
            if connection.vendor == "postgresql":
                _execute("SELECT set_config('statement_timeout', %s, false)", limit)


def _execute(statement: str, parameters: Sequence[Any] = ()) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.rowcount


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk


def _copy(into: str, width: int, rows: Iterable[Sequence[Any]], progress: Progress) -> int:
    """In blocks of COPY's text format: psycopg's row by row takes several times as long."""
    done = 0
    with (
        transaction.atomic(),
        connection.cursor() as cursor,
        connection.wrap_database_errors,  # Django wraps what execute raises, not what copy does
        cursor.copy(f"COPY {into} FROM STDIN") as copy,
    ):
        for chunk in chunks(rows):
            copy.write(_block(chunk, width))
            done += len(chunk)
            progress(done)
    return done


def _block(rows: list[Sequence[Any]], width: int) -> str:
    line = "\t".join(["%s"] * width) + "\n"
    block = "".join([line % tuple(row) for row in rows])
    if "\\" in block or "\r" in block or block.count("\t") != (width - 1) * len(rows) or block.count("\n") != len(rows):
        block = "".join([line % tuple(str(value).translate(_ESCAPES) for value in row) for row in rows])
    return block


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _insert(statement: str, rows: Iterable[Sequence[Any]], progress: Progress) -> int:
    done = 0
    with connection.cursor() as cursor:
        for chunk in chunks(rows):
            with _of_this_connection():
                cursor.executemany(statement, chunk)
            done += len(chunk)
            progress(done)
    return done


@contextmanager
def _of_this_connection() -> Iterator[None]:
    """One transaction for many statements on temporary tables. Django's would be IMMEDIATE, and hold up searches for a
    table that they cannot see."""
    if connection.in_atomic_block:
        yield
        return
    _execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        _execute("COMMIT")


# --- Merging -------------------------------------------------------------------------------------------------------


def upsert(
    *, table: Table, rows: Iterable[Sequence[Any]], dry_run: bool = False, progress: Progress = silent
) -> Counts:
    """Add the rows, or change those that are there under the same key. No key may come twice."""
    with workbench() as bench:
        types = {
            column: str(table.model._meta.get_field(column).db_type(connection)) for column in table.key + table.values
        }
        bench.fill("given", types, rows)
        with one_at_a_time(table):
            bench.derive("ready", f"SELECT {table.columns}, {NOT_GONE} FROM given ORDER BY {table.key[0]}")
            return merge(bench=bench, table=table, ready="ready", dry_run=dry_run, progress=progress)


def merge(*, bench: Workbench, table: Table, ready: str, dry_run: bool = False, progress: Progress = silent) -> Counts:
    """Bring `table` to what the temporary table `ready` says.

    It has the columns of `table` and `gone`, and is sorted by the first one. Where `gone` is null, the row is wanted,
    and its key comes once; else `gone` is the primary key of a row to remove. With `dry_run` nothing but the counts is
    taken.
    """
    counts = _compare(bench, table, ready)
    if not dry_run and counts.added + counts.changed + counts.removed:
        if connection.vendor == "postgresql":
            _write_at_once(bench, table, ready, counts, progress)
        else:
            _write_in_chunks(bench, table, ready, counts, progress)
    return counts


@contextmanager
def one_at_a_time(table: Table) -> Iterator[None]:
    """Imports into one table take turns: they never deadlock, and each counts what it did. On PostgreSQL what happens
    inside is one transaction."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"import into {table.name}"])
            yield
        return
    # A file of its own, for closing one of the database's would take SQLite's own locks away from this process; and one
    # that others may open, if it was root who imported first.
    path = Path(connection.settings_dict["NAME"]).with_name(f"{table.name}.lock")
    lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def upsert_statement(table: Table, ready: str, some: str) -> str:
    """From `ready` into the table, what differs only; `some` (SQL) says which rows. The first parameter is the stamp,
    where the table has one."""
    inserted, selected = table.columns, table.columns
    updates = [f"{column} = excluded.{column}" for column in table.values]
    if table.stamp:
        inserted, selected = f"{inserted}, {table.stamp}", f"{selected}, %s"
        updates.append(f"{table.stamp} = excluded.{table.stamp}")
    return (
        f"INSERT INTO {table.name} ({inserted}) SELECT {selected} FROM {ready} WHERE gone IS NULL AND {some} "
        f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {', '.join(updates)} "
        f"WHERE {table.differs(table.name, 'excluded')}"
    )


def _compare(bench: Workbench, table: Table, ready: str) -> Counts:
    same = " AND ".join(f"t.{column} = r.{column}" for column in table.key)
    wanted, known, changed, removed = bench.ask(
        f"SELECT count(CASE WHEN r.gone IS NULL THEN 1 END), count(t.{table.key[0]}), "
        f"count(CASE WHEN t.{table.key[0]} IS NOT NULL AND ({table.differs('t', 'r')}) THEN 1 END), count(r.gone) "
        f"FROM {ready} r LEFT JOIN {table.name} t ON r.gone IS NULL AND {same}"
    )[0]
    return Counts(added=wanted - known, changed=changed, unchanged=known - changed, removed=removed)


def _stamp(table: Table) -> list[Any]:
    return [connection.ops.adapt_datetimefield_value(timezone.now())] if table.stamp else []


def _write_at_once(bench: Workbench, table: Table, ready: str, counts: Counts, progress: Progress) -> None:
    """In one transaction, but by pages of the temporary table, so that it can be told how far it is."""
    size = bench.ask(f"SELECT pg_relation_size('{ready}') / 8192")[0][0]
    statement = upsert_statement(table, ready, "ctid >= %s::tid AND ctid < %s::tid")
    with transaction.atomic():
        if counts.removed:
            bench.execute(
                f"DELETE FROM {table.name} USING {ready} WHERE {table.name}.{table.primary_key} = {ready}.gone"
            )
        for first in range(0, size, _PAGES):
            bench.execute(statement, [*_stamp(table), f"({first},0)", f"({first + _PAGES},0)"])
            progress(counts.rows * min(first + _PAGES, size) // size)
        bench.execute(f"ANALYZE {table.name}")


def _write_in_chunks(bench: Workbench, table: Table, ready: str, counts: Counts, progress: Progress) -> None:
    number, last = table.key[0], counts.rows
    statement = upsert_statement(table, ready, "rowid BETWEEN %s AND %s")
    first = 1
    while first <= last:
        end = min(first + CHUNK_ROWS - 1, last)
        if end < last:
            # Rows of one number stay together: the chunk ends before the one that it would cut.
            cut = bench.ask(
                f"SELECT min(rowid) FROM {ready} WHERE rowid BETWEEN %s AND %s "
                f"AND {number} = (SELECT {number} FROM {ready} WHERE rowid = %s)",
                [first, end, end + 1],
            )[0][0]
            end = cut - 1 if cut and cut > first else end
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {table.name} WHERE {table.primary_key} IN "
                f"(SELECT gone FROM {ready} WHERE gone IS NOT NULL AND rowid BETWEEN %s AND %s)",
                [first, end],
            )
            cursor.execute(statement, [*_stamp(table), first, end])
        progress(end)
        first = end + 1
        let_others_write()


def delete(*, model: type[models.Model], keys: Iterable[Any]) -> int:
    """Delete rows by primary key, in chunks. Returns how many there were."""
    deleted = 0
    for chunk in chunks(keys):
        with transaction.atomic():
            deleted += model._base_manager.filter(pk__in=chunk).delete()[0]
        let_others_write()
    return deleted
