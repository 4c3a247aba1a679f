"""Runs the statements that are written by hand: the few that every search runs, and those that write statistics."""

from collections.abc import Sequence
from typing import Any, cast

from django.db import DEFAULT_DB_ALIAS, connections


class NoAnswer(Exception):
    """The `__cause__` of django.db's OperationalError where the database did not answer within the client's limit
    (accounts.postgresql). The connection is closed, and whether the statement has run is unknown."""


def one_row(statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Raises django.db's errors.

    To PostgreSQL parameters go apart from the text (accounts.prepared), which Django's `execute_wrapper` does not see;
    captured statements go through Django. For the ORM's statements Django's own option would set parameters apart, at
    a price: sums of large integers are cut to 32 bits, and the console's lists need plans for their parameters.
    """
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "postgresql" and not database.queries_logged:
        from accounts.prepared import one_row as prepared  # SQLite does without psycopg's import

        return prepared(database, statement, parameters)
    with database.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cast(tuple[Any, ...] | None, cursor.fetchone() if cursor.description else None)


def run(statement: str, parameters: Sequence[Any]) -> None:
    """For a statement that gives no rows. Raises django.db's errors."""
    one_row(statement, parameters)
