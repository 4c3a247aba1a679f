"""Runs the statements that are written by hand: the few that every search runs."""

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper


def one_row(statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Raises django.db's errors.

    To PostgreSQL parameters go apart from the text, so that each connection has it parsed and planned only once
    (`prepare_threshold`). For the ORM's statements Django's own option would do the same, at a price: sums of large
    integers are cut to 32 bits, and the console's lists need plans for their parameters. Django's `execute_wrapper`
    sees none of this; captured statements go through Django, and so not prepared.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor != "postgresql" or database.queries_logged:
        with database.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchone()
    return _prepared(database, statement, parameters)


def _prepared(database: BaseDatabaseWrapper, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    from psycopg import Cursor, errors

    database.ensure_connection()
    connection: Any = database.connection
    with database.wrap_database_errors:
        try:
            return Cursor(connection).execute(statement, parameters).fetchone()
        except (errors.FeatureNotSupported, errors.InvalidSqlStatementName):
            # What was prepared is void: a column has changed its type, or a pooler has changed the session. It has not
            # run. In a transaction nothing more can, and its ROLLBACK makes psycopg forget, as this does.
            if database.in_atomic_block:
                raise
            connection.execute("DEALLOCATE ALL")
            return Cursor(connection).execute(statement, parameters).fetchone()
