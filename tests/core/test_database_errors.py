"""Lines about database errors say what is wrong, and no value of a row or statement."""

import sqlite3

import psycopg
import pytest
from django.db import OperationalError
from psycopg_pool import PoolTimeout

from core.database_errors import describe
from tests.servers import PgBouncer, required

pytestmark = [pytest.mark.once, pytest.mark.slow]


def failure(url: str, *statements: str) -> str:
    """How the error of the last statement is described, as Django raises it."""
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            for statement in statements:
                connection.execute(statement)
    except psycopg.Error as error:
        wrapped = OperationalError()
        wrapped.__cause__ = error
        return describe(wrapped)
    raise AssertionError("nothing failed")


def test_messages_without_values_are_shown_and_no_others(postgres_url: str) -> None:
    assert failure(postgres_url, "SET statement_timeout = 1", "SELECT pg_sleep(9)") == (
        "OperationalError: 57014 canceling statement due to statement timeout"
    )
    assert failure(postgres_url, "SELECT 'Erika' FROM nowhere") == (
        'OperationalError: 42P01 relation "nowhere" does not exist'
    )
    assert failure(postgres_url, "SELECT 'Erika'::integer") == "OperationalError: 22P02"
    assert failure(postgres_url, "SELECT Erika'") == "OperationalError: 42601"
    unique = ("CREATE TEMP TABLE t (name text PRIMARY KEY)", "INSERT INTO t VALUES ('Erika'), ('Erika')")
    assert failure(postgres_url, *unique) == "OperationalError: 23505"


def test_connection_errors_show_what_the_server_says(postgres_url: str) -> None:
    with required():
        pooler = PgBouncer(postgres_url).start()
    try:
        refused = failure(f"{pooler.url}?options=-c%20statement_timeout%3D0")
    finally:
        pooler.close()
    assert "unsupported startup parameter: options" in refused
    assert "Connection refused" in failure(pooler.url)
    assert describe(PoolTimeout("no connection in 1 s")) == "PoolTimeout: no connection in 1 s"


def test_messages_of_sqlite_are_shown() -> None:
    wrapped = OperationalError("Erika")
    wrapped.__cause__ = sqlite3.OperationalError("database is locked")
    assert describe(wrapped) == "OperationalError: database is locked"


def test_other_errors_are_named_only() -> None:
    assert describe(ValueError("Erika")) == "ValueError"
    assert describe(psycopg.DataError("Erika")) == "DataError"
