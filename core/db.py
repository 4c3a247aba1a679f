"""Hand-written SQL statements, and the handling of database connections.

Most queries use the ORM. The statements of every search and those that write statistics are written by hand.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InterfaceError, OperationalError, connection, connections
from django.db.models import Model

from core.tracing import span

SQLITE_PAUSE_S = 0.01
#: How long `Session.end` waits: less than the time limit of a statement while serving.
END_TIMEOUT_S = 0.3
_TERMINATE = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
WHERE pid = %s AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()
"""

T = TypeVar("T")


class QueryTimeout(Exception):
    """The `__cause__` of django.db's OperationalError when the client's time limit is over (core.postgresql).

    The connection is closed, and whether the statement has run is unknown.
    """


def fetch_one(statement: str, parameters: Sequence[Any], *, alias: str = DEFAULT_DB_ALIAS) -> tuple[Any, ...] | None:
    """The first row, or None. `statement` has %s for each parameter, and no %%. Raises django.db's errors.

    PostgreSQL gets the parameters apart from the text, which Django's `execute_wrapper` does not see; captured
    statements go through Django. Django's option `server_side_binding` is no alternative, because it affects the ORM:
    sums of large integers overflow at 32 bits, and the console's lists need plans that depend on their parameters.
    """
    database: Any = connections[alias]
    row: tuple[Any, ...] | None
    with span("database", **{"db.system.name": database.vendor, "db.query.text": statement}):
        if database.vendor == "postgresql" and not database.queries_logged:
            row = database.fetch_one(statement, parameters)
        else:
            with database.cursor() as cursor:
                cursor.execute(statement, parameters)
                row = cursor.fetchone() if cursor.description else None
    return row


def run(statement: str, parameters: Sequence[Any]) -> None:
    """Execute a statement that returns no rows. Raises django.db's errors."""
    fetch_one(statement, parameters)


def insert(model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
    """Insert `rows` in one statement. Raises django.db's errors.

    On PostgreSQL all rows are in one parameter. psycopg handles each parameter in Python: thousands of them occupy the
    interpreter for 100-200 ms, and a search waits for it after each of its own waits, which multiplies the 99th
    percentile (docs/performance.md).
    """
    parameters: list[Any]
    if connection.vendor == "postgresql":
        types = {field.column: field.db_type(connection) for field in model._meta.fields}
        typed = ", ".join(f"{column} {types[column]}" for column in columns)
        source = f"SELECT * FROM json_to_recordset(%s::json) AS row({typed})"  # noqa: S608
        parameters = [json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=str)]
    else:
        placeholders = f"({', '.join(['%s'] * len(columns))})"
        source = f"VALUES {', '.join([placeholders] * len(rows))}"
        parameters = [value for row in rows for value in row]
    run(f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) {source} {on_conflict}", parameters)


def retry_on_new_connection(query: Callable[[], T]) -> T:
    """The result of `query`; of a second try when the server has closed the connection. For reads.

    A timeout is not retried: a new connection would most likely time out too, and the time of a search is limited.
    """
    try:
        return query()
    except (OperationalError, InterfaceError) as error:
        if isinstance(error.__cause__, QueryTimeout):
            raise
        if connection.connection is None or connection.in_atomic_block or connection.is_usable():
            raise
        discard_connections()
        return query()


def discard_connections() -> None:
    """Close this thread's connection and all in the pool: what broke one has most likely broken the others."""
    connection.close()
    if pool := getattr(connection, "pool", None):
        pool.drain()


def yield_to_writers() -> None:
    """Call this between many transactions: SQLite's other writers only retry now and then, and need a gap."""
    if connection.vendor == "sqlite":
        time.sleep(SQLITE_PAUSE_S)


def release_connection() -> None:
    """Return this thread's connection to the serving process's pool, before waiting for anything but the database."""
    if "pool" in connection.settings_dict["OPTIONS"] and not connection.in_atomic_block:
        connection.close()


# --- Sessions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Session:
    """A connection to PostgreSQL and the id of the backend process that serves it, which can be ended."""

    _connection: Any
    server_pid: int

    @classmethod
    def current(cls) -> Self | None:
        """This thread's, connected if need be. None on SQLite and inside a transaction, whose commit decides."""
        database: Any = connections[DEFAULT_DB_ALIAS]
        if database.vendor != "postgresql" or database.in_atomic_block:
            return None
        database.ensure_connection()
        raw = database.connection
        return cls(raw, getattr(raw, "server_pid", None) or raw.pgconn.backend_pid)

    @property
    def lost(self) -> bool:
        return bool(self._connection.closed)

    def end(self) -> None:
        """Terminate the backend, from a new connection, so that it starts nothing that it has not started yet.

        Behind a pooler (DB_PREPARE=false) the known session is the pooler's own, so nothing is terminated. Raises
        OperationalError when the backend is still there after END_TIMEOUT_S.
        """
        discard_connections()
        if not settings.DB_PREPARE:
            return
        ended = fetch_one(_TERMINATE, [int(END_TIMEOUT_S * 1000), self.server_pid])
        if ended is not None and not ended[0]:
            raise OperationalError("The lost session has not ended.")
