"""Hand-written SQL statements on Django's connection. Those of a search are awaited: core.database."""

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Model

SQLITE_PAUSE_S = 0.01
#: `postgresql` or `sqlite`, as DATABASE_URL says. A constant, because reading `connection.vendor` takes long.
VENDOR = connection.vendor


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


def insert(model: type[Model], columns: Sequence[str], rows: Sequence[Sequence[Any]], on_conflict: str = "") -> None:
    """Insert `rows` in one statement. Raises django.db's errors.

    On PostgreSQL all rows are in one parameter. psycopg handles each parameter in Python: thousands of them occupy the
    interpreter for 100-200 ms, and searches wait for it.
    """
    parameters: list[Any]
    if VENDOR == "postgresql":
        types = {field.column: field.db_type(connection) for field in model._meta.fields}
        typed = ", ".join(f"{column} {types[column]}" for column in columns)
        source = f"SELECT * FROM json_to_recordset(%s::json) AS row({typed})"  # noqa: S608
        parameters = [json.dumps([dict(zip(columns, row, strict=True)) for row in rows], default=_as_text)]
    else:
        placeholders = f"({', '.join(['%s'] * len(columns))})"
        source = f"VALUES {', '.join([placeholders] * len(rows))}"
        parameters = [value for row in rows for value in row]
    run(f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) {source} {on_conflict}", parameters)


def _as_text(value: Any) -> str:
    """How PostgreSQL reads a value that JSON has no type for."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


def yield_to_writers() -> None:
    """Call this between many transactions: SQLite's other writers only retry now and then, and need a gap."""
    if VENDOR == "sqlite":
        time.sleep(SQLITE_PAUSE_S)
