"""Staging tables: the temporary tables of one import, which only this connection sees.

Rows are copied into them (PostgreSQL: by COPY), and are sorted and made unique there in SQL.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from django.db import connection, transaction

from core.db import fetch_one
from lookup.imports.progress import OnProgress, ignore_progress

CHUNK_ROWS = 5000
Write = Callable[[list[Sequence[Any]]], None]
# For PostgreSQL's sorts; one import at a time sorts.
_WORK_MEM = "64MB"


class StagingTables:
    """The temporary tables and views of one import; `staging_tables` drops them."""

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
        # Sorting by bytes takes a fraction of the time of sorting by a language's rules.
        collation = ' COLLATE "C"' if connection.vendor == "postgresql" else ""
        types = ", ".join(f"{column} {kind}{collation * (kind == 'text')}" for column, kind in columns.items())
        self._create("TABLE", name, f"({types})")
        into = f"{name} ({', '.join(columns)})"
        done = 0
        with (_copy if connection.vendor == "postgresql" else _insert)(into, len(columns)) as write:
            for chunk in chunks(rows):
                write(chunk)
                done += len(chunk)
                progress(done)
        return done

    def derive(self, name: str, query: str, parameters: Sequence[Any] = ()) -> int:
        """Create the table `name` from the result of `query`, in its order. Returns the number of its rows."""
        if connection.vendor == "sqlite":
            self._create("TABLE", name, f"AS {query}", parameters)
            return self.count(name)
        self.execute(f"SET work_mem = '{_WORK_MEM}'")
        rows = self._create("TABLE", name, f"AS {query}", parameters)
        self.execute(f"ANALYZE {name}")
        self.execute("RESET work_mem")
        return rows

    def view(self, name: str, query: str) -> None:
        """As `derive`, but as a view, where a copy would not be faster to read."""
        self._create("VIEW", name, f"AS {query}")

    def index(self, name: str, columns: str) -> None:
        """SQLite joins by indexes only; PostgreSQL hashes and sorts."""
        if connection.vendor == "sqlite":
            self.execute(f"CREATE INDEX {name}_index ON {name} ({columns})")

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

    def drop(self) -> None:
        for kind, name in reversed(self._created):
            self.execute(f"DROP {kind} IF EXISTS {name}")

    def _create(self, kind: str, name: str, definition: str, parameters: Sequence[Any] = ()) -> int:
        self._created.append((kind, name))
        return self.execute(f"CREATE TEMPORARY {kind} {name} {definition}", parameters)


@contextmanager
def staging_tables() -> Iterator[StagingTables]:
    tables = StagingTables()
    if connection.vendor == "postgresql":
        limit = fetch_one("SELECT current_setting('statement_timeout')", []) or ("0",)  # the service's, or the role's
        tables.execute("SET statement_timeout = 0")
    try:
        yield tables
    finally:
        # In a failed transaction nothing can be dropped, and nothing needs to be.
        if not connection.needs_rollback:
            tables.drop()
            if connection.vendor == "postgresql":
                tables.execute("SELECT set_config('statement_timeout', %s, false)", limit)


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK_ROWS)):
        yield chunk


@contextmanager
def _copy(into: str, width: int) -> Iterator[Write]:
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


@contextmanager
def _insert(into: str, width: int) -> Iterator[Write]:
    """Write in one transaction for each chunk. Django's is IMMEDIATE, and would make searches wait for tables that they
    cannot see."""
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
