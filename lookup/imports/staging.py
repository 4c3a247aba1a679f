"""Staging tables: the temporary tables of one import, which only this connection sees.

Rows are copied into them, and are sorted and made unique there in SQL. What differs between the databases is in the
subclasses PostgreSQLTables and SQLiteTables; `backend` is that of this database.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from django.db import IntegrityError, connection, transaction

from core.db import fetch_one, run, yield_to_writers
from lookup.imports.progress import OnProgress, ignore_progress

if TYPE_CHECKING:
    from lookup.imports.merging import Counts, TargetTable

CHUNK_ROWS = 5000
Write = Callable[[list[Sequence[Any]]], None]
# For PostgreSQL's sorts; one import at a time sorts.
_WORK_MEM = "64MB"
# About 100,000 rows, after which progress is reported.
_PAGES = 1000


class StagingTables(ABC):
    """The temporary tables and views of one import; `staging_tables` drops them."""

    #: Whether others see a merge in parts, and an interrupted one leaves some.
    merges_in_parts: bool
    #: SQL: the operator that compares values, of which some are NULL.
    differs: str
    #: Of columns of text.
    collation = ""

    @staticmethod
    @abstractmethod
    def lock(table: str) -> AbstractContextManager[None]:
        """As merging.import_lock."""

    @abstractmethod
    def write(self, table: "TargetTable", counts: "Counts", progress: OnProgress) -> None:
        """Write the staging table `merged`, whose rows are those of `counts`, into `table`."""

    @abstractmethod
    def _writer(self, into: str, width: int) -> AbstractContextManager[Write]:
        """What inserts chunks of rows with `width` columns."""

    def __init__(self) -> None:
        self._created: list[tuple[str, str]] = []

    def fill(
        self,
        name: str,
        columns: Mapping[str, str],
        rows: Iterable[Sequence[Any]],
        progress: OnProgress = ignore_progress,
    ) -> int:
        """Create the table `name` (`columns`: name → SQL type; no NULLs) from `rows`. Returns how many there were."""
        types = ", ".join(f"{column} {kind}{self.collation * (kind == 'text')}" for column, kind in columns.items())
        self._create("TABLE", name, f"({types})")
        into = f"{name} ({', '.join(columns)})"
        done = 0
        with self._writer(into, len(columns)) as write:
            for chunk in chunks(rows):
                write(chunk)
                done += len(chunk)
                progress(done)
        return done

    def derive(self, name: str, query: str, parameters: Sequence[Any] = ()) -> int:
        """Create the table `name` from the result of `query`, in its order. Returns the number of its rows."""
        self._create("TABLE", name, f"AS {query}", parameters)
        return self.count(name)

    def view(self, name: str, query: str) -> None:
        """As `derive`, but as a view, where a copy would not be faster to read."""
        self._create("VIEW", name, f"AS {query}")

    @abstractmethod
    def index(self, name: str, columns: str) -> None:
        """Index the columns by which the table is joined, unless the database hashes or sorts it."""

    def count(self, name: str) -> int:
        return int(self.query(f"SELECT count(*) FROM {name}")[0][0])

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Returns the number of rows affected."""
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.rowcount

    def query(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return cursor.fetchall()

    def stream(self, query: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query whose result may be large."""
        with connection.chunked_cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(CHUNK_ROWS):
                yield from rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # In a failed transaction nothing can be dropped, and nothing needs to be.
        if not connection.needs_rollback:
            self.drop()

    def drop(self) -> None:
        for kind, name in reversed(self._created):
            self.execute(f"DROP {kind} IF EXISTS {name}")

    def _create(self, kind: str, name: str, definition: str, parameters: Sequence[Any] = ()) -> int:
        self._created.append((kind, name))
        return self.execute(f"CREATE TEMPORARY {kind} {name} {definition}", parameters)


class PostgreSQLTables(StagingTables):
    """Rows are copied by COPY, and merged in one transaction."""

    merges_in_parts = False
    differs = "IS DISTINCT FROM"
    # Sorting by bytes takes a fraction of the time of sorting by a language's rules.
    collation = ' COLLATE "C"'

    def __enter__(self) -> Self:
        limit = fetch_one("SELECT current_setting('statement_timeout')", [])
        self._timeout = limit or ("0",)  # the service's, or the role's
        self.execute("SET statement_timeout = 0")
        return self

    def drop(self) -> None:
        super().drop()
        self.execute("SELECT set_config('statement_timeout', %s, false)", self._timeout)

    @staticmethod
    @contextmanager
    def lock(table: str) -> Iterator[None]:
        with transaction.atomic():
            run("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"import into {table}"])
            yield

    def derive(self, name: str, query: str, parameters: Sequence[Any] = ()) -> int:
        self.execute(f"SET work_mem = '{_WORK_MEM}'")
        rows = self._create("TABLE", name, f"AS {query}", parameters)
        self.execute(f"ANALYZE {name}")
        self.execute("RESET work_mem")
        return rows

    def index(self, name: str, columns: str) -> None:
        """None: PostgreSQL hashes and sorts."""

    def write(self, table: "TargetTable", counts: "Counts", progress: OnProgress) -> None:
        all_new = not (counts.changed or counts.unchanged)
        try:
            self._write(table, counts, progress, all_new=all_new)
        except IntegrityError:  # somebody added one of the keys since
            if not all_new:
                raise
            self._write(table, counts, progress, all_new=False)

    def _write(self, table: "TargetTable", counts: "Counts", progress: OnProgress, *, all_new: bool) -> None:
        """Write by pages of the staging table, so that progress can be reported."""
        size = self.query("SELECT pg_relation_size('merged') / 8192")[0][0]
        upsert = table.upsert_statement("ctid >= %s::tid AND ctid < %s::tid", all_new=all_new)
        with transaction.atomic():
            if counts.removed:
                self.execute(table.delete_statement("TRUE"))
            for first in range(0, size, _PAGES):
                self.execute(upsert, [*table.stamp_parameters(), f"({first},0)", f"({first + _PAGES},0)"])
                progress(counts.rows * min(first + _PAGES, size) // size)
            self.execute(f"ANALYZE {table.name}")

    @contextmanager
    def _writer(self, into: str, width: int) -> Iterator[Write]:
        """Write blocks of COPY's text format: psycopg's write_row takes several times as long."""
        with (
            transaction.atomic(),
            connection.cursor() as cursor,
            connection.wrap_database_errors,  # Django wraps errors of execute, not of copy
            cursor.copy(f"COPY {into} FROM STDIN") as copy,
        ):
            yield lambda rows: copy.write(_copy_block(rows, width))


def _copy_block(rows: list[Sequence[Any]], width: int) -> str:
    line = "\t".join(["%s"] * width) + "\n"
    block = "".join([line % tuple(row) for row in rows])
    if "\\" in block or "\r" in block or block.count("\t") != (width - 1) * len(rows) or block.count("\n") != len(rows):
        block = "".join([line % tuple(str(value).translate(_ESCAPES) for value in row) for row in rows])
    return block


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class SQLiteTables(StagingTables):
    """Each chunk of rows is copied, and merged, in a transaction of its own, so that searches need not wait."""

    merges_in_parts = True
    differs = "IS NOT"

    @staticmethod
    @contextmanager
    def lock(table: str) -> Iterator[None]:
        # A separate file: closing one of the database's would release SQLite's own locks in this process. Readable by
        # all, in case root was the first to import.
        path = Path(connection.settings_dict["NAME"]).with_name(f"{table}.lock")
        with open(os.open(path, os.O_RDONLY | os.O_CREAT, 0o644), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def index(self, name: str, columns: str) -> None:
        self.execute(f"CREATE INDEX {name}_index ON {name} ({columns})")

    def write(self, table: "TargetTable", counts: "Counts", progress: OnProgress) -> None:
        """Each chunk ends before the number that it would split; a number with more rows than a chunk is split."""
        upsert = table.upsert_statement("rowid BETWEEN %s AND %s")
        delete = table.delete_statement("rowid BETWEEN %s AND %s")
        number, first = table.key[0], 1
        while first <= counts.rows:
            last = min(first + CHUNK_ROWS - 1, counts.rows)
            split = self.query(
                f"SELECT min(rowid) FROM merged WHERE rowid BETWEEN %s AND %s "
                f"AND {number} = (SELECT {number} FROM merged WHERE rowid = %s)",
                [first, last, last + 1],
            )[0][0]
            if split and split > first:
                last = split - 1
            with transaction.atomic():
                self.execute(delete, [first, last])
                self.execute(upsert, [*table.stamp_parameters(), first, last])
            progress(last)
            first = last + 1
            yield_to_writers()

    @contextmanager
    def _writer(self, into: str, width: int) -> Iterator[Write]:
        """Django's transactions are IMMEDIATE, and would make searches wait for tables that they cannot see."""
        statement = f"INSERT INTO {into} VALUES ({', '.join(['%s'] * width)})"
        with connection.cursor() as cursor:

            def write(rows: list[Sequence[Any]]) -> None:
                if connection.in_atomic_block:
                    cursor.executemany(statement, rows)
                    return
                cursor.execute("BEGIN DEFERRED")
                try:
                    cursor.executemany(statement, rows)
                finally:
                    cursor.execute("COMMIT")

            yield write


def backend() -> type[PostgreSQLTables] | type[SQLiteTables]:
    return PostgreSQLTables if connection.vendor == "postgresql" else SQLiteTables


def staging_tables() -> StagingTables:
    """The tables of one import, for a `with` block."""
    return backend()()


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk
