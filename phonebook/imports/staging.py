"""Staging tables: the temporary tables of one import, which only this connection sees, and their merge into a table.

Rows are copied into them, are sorted and made unique there in SQL, and what differs is written into the target table.
What the databases do in their own ways is in PostgreSQLTables and SQLiteTables; Tables is the one of this database.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db import Error, IntegrityError, connection, models, transaction
from django.utils.module_loading import import_string

from core.db import VENDOR, fetch, fetch_one, run, yield_to_writers
from core.progress_bar import progress_bar
from phonebook.imports import CHANGE_STORES
from phonebook.models import ImportBatch

CHUNK_ROWS = 5000
#: For the rows of `merged` that are to be written.
NOT_DELETED = "CAST(NULL AS bigint) AS deleted"


class LockNotAvailable(Exception):
    """Another import into the table, or its undo, is running."""


@dataclass(slots=True)
class Counts:
    """Numbers of rows. `read`: valid and rejected ones. `repeated`: skipped, because an earlier row has the same number
    (complaints: the same ticket, or number and day). `rejected`: by reason. The others: rows of the target table."""

    read: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    repeated: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """`key` and `values` name the columns. `stamp`: a column that is set to the time of the import in every row that is
    added or changed. The table has a column `import_batch`, which is set too."""

    model: type[models.Model]
    key: tuple[str, ...]
    values: tuple[str, ...]
    stamp: str | None = None

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    def same_key(self, one: str, other: str) -> str:
        """SQL: whether two rows have the same key."""
        return " AND ".join(f"{one}.{column} = {other}.{column}" for column in self.key)


class StagingTables(ABC):
    """The temporary tables of one import, dropped at the end of a `with` block."""

    #: Whether others see a merge in parts, and an interrupted one leaves some.
    merges_in_parts: bool
    #: SQL: the operator that compares values, of which some are NULL.
    differs: str
    #: Of columns of text.
    collation = ""

    @staticmethod
    @abstractmethod
    def lock(table: TargetTable, *, wait: bool = True) -> AbstractContextManager[None]:
        """Imports into one table take turns: they never deadlock, and each counts what it did. On PostgreSQL what
        happens inside is one transaction. Raises LockNotAvailable if it would have to wait, unless `wait`."""

    @abstractmethod
    def optimize(self, name: str, index: str = "") -> None:
        """Prepare the filled table `name` for joins by the columns of `index`."""

    @abstractmethod
    def _insert(self, into: str, width: int, rows: list[Sequence[Any]]) -> None:
        """Insert rows with `width` columns. Other connections need not wait for it."""

    @abstractmethod
    def _lock_writes(self, table: TargetTable) -> None:
        """Until the end of the transaction nobody else writes to `table`: rows are changed as they were stored."""

    @abstractmethod
    def parts(self, table: TargetTable, rows: int) -> Iterator[tuple[str, int]]:
        """For each part of the `rows` of `merged` that is written at once: the condition for it, and the number of rows
        up to its end."""

    def __init__(self) -> None:
        self._created: list[str] = []
        #: Rows of the target table that others see, also if the import is interrupted now.
        self.committed = 0
        self.progress_bar: Any = progress_bar

    def fill(self, name: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> int:
        """Create the table `name` (`columns`: name → SQL type; no NULLs) from `rows`. Returns how many there were."""
        types = ", ".join(f"{column} {kind}{self.collation * (kind == 'text')}" for column, kind in columns.items())
        self._create(name, f"({types})")
        done = 0
        for chunk in chunks(rows):
            self._insert(f"{name} ({', '.join(columns)})", len(columns), chunk)
            done += len(chunk)
        return done

    def derive(self, name: str, query: str, parameters: Sequence[Any] = (), *, index: str = "") -> None:
        """Create the table `name` from the result of `query`, in its order."""
        self._create(name, f"AS {query}", parameters)
        self.optimize(name, index)

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query whose result may be large."""
        with connection.chunked_cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(CHUNK_ROWS):
                yield from rows

    def compare(self, table: TargetTable, counts: Counts) -> None:
        """Compare the staging table `merged` with `table`, and set what `counts` has about its rows.

        `merged` has the columns of `table` and `deleted`, and is sorted by the first column. If `deleted` is NULL, the
        row is written, and its key occurs once; otherwise `deleted` is the primary key of a row to delete.
        """
        known = f"t.{table.key[0]}"
        written, stored, counts.changed, counts.removed = fetch_one(
            f"SELECT count(CASE WHEN m.deleted IS NULL THEN 1 END), count({known}), "
            f"count(CASE WHEN {known} IS NOT NULL AND ({self.differ(table, 't', 'm')}) THEN 1 END), count(m.deleted) "
            f"FROM merged m LEFT JOIN {table.name} t ON m.deleted IS NULL AND {table.same_key('t', 'm')}"
        )
        counts.added, counts.unchanged = written - stored, stored - counts.changed

    def merge(self, table: TargetTable, counts: Counts, batch: ImportBatch) -> None:
        """Merge `merged` into `table`, as it was compared. Call it in `lock`.

        The rows that it adds or changes get the `batch`; if that `can_undo`, those that it changes or removes are
        stored first (CHANGE_STORES).

        On PostgreSQL others see all of a merge, or nothing. On SQLite, where searches write too, each part is a
        transaction, followed by a pause. All rows of one number are in one part, so that a search, which is for one
        number, sees all of them or none. If interrupted there, the same import again does the rest.
        On both, what others write between the comparison and a part counts as later: a row that was added stays.
        """
        if not (counts.added or counts.changed or counts.removed):
            return
        stored = counts.changed + counts.unchanged
        total = counts.added + stored + counts.removed
        columns = {column: column for column in (*table.key, *table.values)}
        if table.stamp:
            columns[table.stamp] = "CURRENT_TIMESTAMP"
        columns["import_batch"] = str(batch.pk)
        insert = f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
        values = {column: value if column != value else f"m.{value}" for column, value in columns.items()}
        assignments = ", ".join(f"{column} = {value}" for column, value in values.items() if column not in table.key)
        differs = f"m.deleted IS NULL AND {table.same_key('t', 'm')} AND ({self.differ(table, 't', 'm')})"
        is_stored = f"EXISTS (SELECT 1 FROM {table.name} t WHERE {table.same_key('t', 'm')})"
        stores = [import_string(path) for path in CHANGE_STORES] if batch.can_undo else []
        with self.progress_bar(desc="merging", total=total, unit=" rows") as bar:
            for where, done in self.parts(table, total):
                part = f"(SELECT * FROM merged WHERE {where}) m"
                with transaction.atomic():
                    self._lock_writes(table)
                    if counts.removed:
                        removed = f"t.{table.model._meta.pk.column} IN (SELECT deleted FROM {part})"
                        for store in stores:
                            store(table, batch, f"{table.name} t WHERE {removed}", is_removed=True)
                        run(f"DELETE FROM {table.name} AS t WHERE {removed}")
                    if counts.changed:
                        for store in stores:
                            store(table, batch, f"{part}, {table.name} t WHERE {differs}", is_removed=False)
                        run(f"UPDATE {table.name} AS t SET {assignments} FROM {part} WHERE {differs}")
                    if counts.added:
                        # On an empty table PostgreSQL would scan, for each row, all rows that were inserted before it.
                        is_new = f"AND NOT {is_stored}" if stored or self.merges_in_parts else ""
                        _add(f"{insert} FROM {part} WHERE m.deleted IS NULL {is_new}")
                if self.merges_in_parts:
                    self.committed = done
                bar.update(done - bar.n)
                yield_to_writers()
        self.optimize(table.name)

    def differ(self, table: TargetTable, one: str, other: str) -> str:
        """SQL: whether two rows with the same key have different values."""
        return " OR ".join(f"{one}.{column} {self.differs} {other}.{column}" for column in table.values)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Error):  # in a failed transaction nothing can be dropped, and nothing needs to be
            for name in self._created:
                run(f"DROP TABLE IF EXISTS {name}")

    def _create(self, name: str, definition: str, parameters: Sequence[Any] = ()) -> None:
        self._created.append(name)
        run(f"CREATE TEMPORARY TABLE {name} {definition}", parameters)


def _add(insert: str) -> None:
    """Without ON CONFLICT, PostgreSQL takes a third less time. A row that somebody has added since stays."""
    try:
        with transaction.atomic():
            run(insert)
    except IntegrityError:
        run(f"{insert} ON CONFLICT DO NOTHING")


class PostgreSQLTables(StagingTables):
    """Rows are copied by COPY. A `with` block is one transaction: the service may be connected by a pooler, which keeps
    temporary tables and settings no longer."""

    merges_in_parts = False
    differs = "IS DISTINCT FROM"
    # Sorting by bytes takes a fraction of the time of sorting by a language's rules.
    collation = ' COLLATE "C"'

    def __enter__(self) -> Self:
        self._transaction = transaction.atomic()
        self._transaction.__enter__()
        if not settings.SERVING:  # a page keeps its limit
            run("SET LOCAL statement_timeout = 0")
        run("SET LOCAL work_mem = '64MB'")  # for sorts; one import at a time sorts
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            super().__exit__(*error)
        self._transaction.__exit__(*error)

    @staticmethod
    @contextmanager
    def lock(table: TargetTable, *, wait: bool = True) -> Iterator[None]:
        with transaction.atomic():
            function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
            if fetch_one(f"SELECT {function}(hashtext(%s))", [f"import into {table.name}"])[0] is False:
                raise LockNotAvailable
            yield

    def optimize(self, name: str, index: str = "") -> None:
        """By statistics: PostgreSQL hashes and sorts, and needs no index."""
        run(f"ANALYZE {name}")

    def _lock_writes(self, table: TargetTable) -> None:
        # A weaker lock could deadlock: `prune` locks a row and then waits for the table, while the import holds the
        # table and waits for the row.
        run(f"LOCK TABLE {table.name} IN EXCLUSIVE MODE")

    def parts(self, table: TargetTable, rows: int) -> Iterator[tuple[str, int]]:
        yield "1 = 1", rows

    def _insert(self, into: str, width: int, rows: list[Sequence[Any]]) -> None:
        with (
            connection.cursor() as cursor,
            connection.wrap_database_errors,  # Django wraps errors of execute, not of copy
            cursor.copy(f"COPY {into} FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)


class SQLiteTables(StagingTables):
    """Each chunk of rows is copied, and merged, in a transaction of its own, so that searches need not wait."""

    merges_in_parts = True
    differs = "IS NOT"

    @staticmethod
    @contextmanager
    def lock(table: TargetTable, *, wait: bool = True) -> Iterator[None]:
        # A separate file: closing one of the database's would release SQLite's own locks in this process. Readable by
        # all, in case root was the first to import.
        path = Path(connection.settings_dict["NAME"]).with_name(f"{table.name}.lock")
        with open(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644), "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise LockNotAvailable from None
            yield

    def optimize(self, name: str, index: str = "") -> None:
        if index:
            run(f"CREATE INDEX {name}_index ON {name} ({index})")

    def _lock_writes(self, table: TargetTable) -> None:
        """Nothing to do: transactions are IMMEDIATE."""

    def parts(self, table: TargetTable, rows: int) -> Iterator[tuple[str, int]]:
        """Each part begins with the first row of a number, at every CHUNK_ROWS rows or a little before."""
        number = table.key[0]
        starts = fetch(
            f"SELECT min(rowid) FROM merged WHERE {number} IN (SELECT {number} FROM merged WHERE rowid %% %s = 1) "
            f"GROUP BY {number} ORDER BY 1",
            [CHUNK_ROWS],
        )
        for (first,), (after,) in pairwise([*starts, (rows + 1,)]):
            yield f"rowid >= {first} AND rowid < {after}", after - 1

    def _insert(self, into: str, width: int, rows: list[Sequence[Any]]) -> None:
        """In a savepoint, which outside a transaction is a DEFERRED one: Django's are IMMEDIATE, and would make
        searches wait for tables that they cannot see."""
        with connection.cursor() as cursor:
            cursor.execute("SAVEPOINT staging")
            try:
                cursor.executemany(f"INSERT INTO {into} VALUES ({', '.join(['%s'] * width)})", rows)
            finally:
                cursor.execute("RELEASE staging")


Tables: type[PostgreSQLTables] | type[SQLiteTables] = PostgreSQLTables if VENDOR == "postgresql" else SQLiteTables


def chunks(items: Iterable[Any], size: int = CHUNK_ROWS) -> Iterator[list[Any]]:
    """Lists of at most `size` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
