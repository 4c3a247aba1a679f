"""Hand-written SQL statements: `fetch` runs them on Django's connection, and `afetch` on the event loop.

While serving PostgreSQL, `afetch` uses a pool of asyncpg (core.postgresql.pool); on SQLite, and in commands and tests,
Django's connection in a thread. Both raise django.db's errors, so that callers need not know which.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model

from core import commits, loop
from core.database_errors import OutOfTime, TimedOut
from core.tracing import span

if TYPE_CHECKING:
    from core.postgresql.pool import Pool

T = TypeVar("T")
Row = tuple[Any, ...]
SQLITE_PAUSE_S = 0.01
#: Of a statement that reads a whole table.
SCAN_TIMEOUT_S = 20.0
#: `postgresql` or `sqlite`, as DATABASE_URL says. A constant, because reading `connection.vendor` takes long.
VENDOR = connection.vendor
#: Of a process that serves PostgreSQL; callerid_project.asgi sets it.
pool: "Pool | None" = None
#: When the search, or the page that reads whole tables, has to end, by time.monotonic; None outside of one.
deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class Statement:
    """A statement with `:name` for each parameter, which psql accepts too, after `\\set name value`."""

    _PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")

    def __init__(self, text: str) -> None:
        self._text = self._PARAMETER.sub("%s", text)
        self._names: list[str] = self._PARAMETER.findall(text)

    def __call__(self, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
        """The arguments of `fetch` and the others. `values` may have further ones."""
        return self._text, [values[name] for name in self._names]


def fetch(statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
    """The rows; none for a statement that returns no rows. `statement` has %s for each parameter. Raises django.db's
    errors."""
    adapt = connection.ops.adapt_datetimefield_value  # SQLite has no type for them
    parameters = [adapt(value) if isinstance(value, datetime) else value for value in parameters]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def fetch_one(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first row, or None."""
    rows = fetch(statement, parameters)
    return rows[0] if rows else None


def run(statement: str, parameters: Sequence[Any] = ()) -> None:
    """Execute a statement that returns no rows. Raises django.db's errors."""
    fetch(statement, parameters)


@contextmanager
def statement_timeout(timeout_s: float) -> Iterator[None]:
    """A transaction for a report on Django's connection, whose statements may take `timeout_s` each, in place of
    DB_STATEMENT_TIMEOUT_MS. Changes nothing where statements have no limit, as on SQLite and in commands."""
    with transaction.atomic():
        limited = connection.connection if VENDOR == "postgresql" and settings.DB_STATEMENT_TIMEOUT_MS else None
        if limited is not None:
            run("SELECT set_config('statement_timeout', %s, true)", [f"{timeout_s * 1000:.0f}"])
            limited.max_wait_s = timeout_s + 0.25
        try:
            yield
        finally:
            if limited is not None:
                limited.max_wait_s = None


def scan() -> AbstractContextManager[None]:
    """For a statement that reads a whole table, which may take SCAN_TIMEOUT_S, within a `time_limit`. Not in a
    transaction on SQLite, where it would block other writers. Raises OutOfTime."""
    timeout_s = time_left_s(SCAN_TIMEOUT_S) or SCAN_TIMEOUT_S
    return statement_timeout(timeout_s) if VENDOR == "postgresql" else nullcontext()


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """All scans together may take `limit_s`."""
    before = deadline.set(time.monotonic() + limit_s)
    try:
        yield
    finally:
        deadline.reset(before)


async def afetch(statement: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
    """As `fetch`, awaited; the statement has no %%. Raises NotSent, ConnectionLost, and other django.db errors for what
    the server refused."""
    with span("database", **{"db.system.name": VENDOR, "db.query.text": statement}):
        return await afetch_untraced(statement, parameters)


async def afetch_untraced(statement: str, parameters: Sequence[Any]) -> Sequence[Any]:
    if pool is None:
        return await run_with_connection(partial(fetch, statement, parameters))
    return await pool.fetch(statement, parameters)


async def afetch_one(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first row, or None."""
    rows = await afetch(statement, parameters)
    return rows[0] if rows else None


async def acommit_one(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """As `afetch_one`, for a statement of a search that commits durably. Raises core.commits.CommitsSuspended too.

    Once it is sent, it has DB_MAX_WAIT_S, also beyond the end of the search: then it is certain that a late one does
    not wait for a lock."""
    process_commits = commits.process_commits
    with span("database", **{"db.system.name": VENDOR, "db.query.text": statement}):
        if pool is None:
            rows: Sequence[Any] = await acommit_with_connection(partial(fetch, statement, parameters))
        else:
            try:
                rows = await pool.fetch(statement, parameters, before=process_commits.begin)
            except TimedOut as error:
                process_commits.late(error.process)
                raise
            process_commits.committed()
    return rows[0] if rows else None


async def acommit_with_connection(function: Callable[[], T]) -> T:
    """The result of `function`, which commits durably on Django's connection. On SQLite it waits for the write lock
    until the search has to end. Raises core.commits.CommitsSuspended too."""
    commits.process_commits.begin()
    end = deadline.get()

    def run() -> T:
        if VENDOR != "sqlite" or not settings.SERVING or end is None:
            return function()
        (usual_ms,) = fetch_one("PRAGMA busy_timeout")
        fetch(f"PRAGMA busy_timeout = {max(0.0, end - time.monotonic()) * 1000:.0f}")
        try:
            return function()
        finally:
            fetch(f"PRAGMA busy_timeout = {usual_ms}")

    result = await run_with_connection(run)
    commits.process_commits.committed()
    return result


async def run_with_connection(function: Callable[[], T]) -> T:
    """As core.loop's, which does not run `function` when the search's time is over. Raises OutOfTime then."""
    end = deadline.get()

    def run() -> T:
        if end is not None and time.monotonic() >= end:
            raise OutOfTime("the search's time was over")
        return function()

    return await loop.run_with_connection(run)


def time_left_s(most_s: float | None) -> float | None:
    """The less of `most_s` and what is left of the time of the search in progress; None: no limit. Raises OutOfTime."""
    if (end := deadline.get()) is None:
        return most_s
    if (left_s := end - time.monotonic()) <= 0:
        raise OutOfTime("the search's time was over")
    return left_s if most_s is None else min(left_s, most_s)


def insert_statement(
    model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], on_conflict: str = ""
) -> tuple[str, list[Any]]:
    """A statement that inserts statistics, and its parameters. On PostgreSQL all rows are in one parameter, which is
    encoded in C: thousands would occupy the interpreter, and searches would wait for it. Such a transaction may be lost
    if the server crashes within a second."""
    into = f"INSERT INTO {model._meta.db_table} ({', '.join(columns)})"
    if VENDOR == "postgresql":
        types = {field.column: field.db_type(connection) for field in model._meta.fields}
        typed = ", ".join(f"{column} {types[column]}" for column in columns)
        objects = [dict(zip(columns, map(_json_value, row), strict=True)) for row in rows]
        # A commit that waited for the disk or a standby would only delay the next rows.
        settings = "set_config('synchronous_commit', 'off', true)"
        source = f"SELECT given.* FROM {settings}, json_to_recordset(%s::json) AS given({typed})"  # noqa: S608
        return f"{into} {source} {on_conflict}", [msgspec.json.encode(objects).decode()]
    placeholders = f"({', '.join(['%s'] * len(columns))})"
    values = ", ".join([placeholders] * len(rows))
    return f"{into} VALUES {values} {on_conflict}", [value for row in rows for value in row]


def _json_value(value: Any) -> Any:
    """A value that JSON has, or that PostgreSQL reads as `value`."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value


def yield_to_writers() -> None:
    """Call this between many transactions: SQLite's other writers only retry now and then, and need a gap."""
    if VENDOR == "sqlite":
        time.sleep(SQLITE_PAUSE_S)
