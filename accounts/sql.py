"""Runs the statements that are written by hand: the few that every search runs, and those that write statistics."""

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

T = TypeVar("T")

_first_row: Callable[[Any], tuple[Any, ...] | None] = methodcaller("fetchone")


def one_row(statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Raises django.db's errors."""
    return _executed(statement, parameters, _first_row)


def run(statement: str, parameters: Sequence[Any]) -> None:
    """For a statement that gives no rows. Raises django.db's errors."""
    _executed(statement, parameters, lambda cursor: None)


def _executed(statement: str, parameters: Sequence[Any], read: Callable[[Any], T]) -> T:
    """What `read` finds in the cursor.

    To PostgreSQL parameters go apart from the text, so that each connection has it parsed and planned only once
    (`prepare_threshold`), and so that no text has values in it: psycopg keeps each connection's last hundred. For the
    ORM's statements Django's own option would do the same, at a price: sums of large integers are cut to 32 bits, and
    the console's lists need plans for their parameters. Django's `execute_wrapper` sees none of this; captured
    statements go through Django, and so not prepared.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor != "postgresql" or database.queries_logged:
        with database.cursor() as cursor:
            cursor.execute(statement, parameters)
            return read(cursor)
    return _prepared(database, statement, parameters, read)


def _prepared(database: BaseDatabaseWrapper, statement: str, parameters: Sequence[Any], read: Callable[[Any], T]) -> T:
    from psycopg import Cursor, errors

    database.ensure_connection()
    connection: Any = database.connection
    with database.wrap_database_errors:
        try:
            return read(Cursor(connection).execute(statement, parameters))
        except (errors.FeatureNotSupported, errors.InvalidSqlStatementName):
            # What was prepared is void: a column has changed its type, or a pooler has changed the session. It has not
            # run. In a transaction nothing more can, and its ROLLBACK makes psycopg forget, as this does.
            if database.in_atomic_block:
                raise
            connection.execute("DEALLOCATE ALL")
            return read(Cursor(connection).execute(statement, parameters))
