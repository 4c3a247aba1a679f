"""Lines about database errors say what is wrong, and no value of a row or statement."""

import sqlite3
from types import SimpleNamespace

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection
from psycopg import conninfo

from core import loop
from core.database_errors import describe, explain, sqlstate
from core.postgresql import pool as pools
from core.postgresql.pool import Pool
from tests.servers import PgBouncer, required

pytestmark = [pytest.mark.once, pytest.mark.slow]


def failure(url: str, *statements: str) -> str:
    """How the error of the last statement is described, as Django raises it; the pool's error says the same."""
    by_django, by_pool = by_psycopg(url, *statements), by_asyncpg(url, *statements)
    assert by_pool.partition(": ")[2] == by_django.partition(": ")[2]
    return by_django


def by_asyncpg(url: str, *statements: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        known = conninfo.conninfo_to_dict(url)
        patch.setattr(pools, "connection", SimpleNamespace(get_connection_params=lambda: known))

        async def fail() -> None:
            pool = Pool(1, 20)
            await pool.open()
            try:
                for statement in statements or ("SELECT 1",):
                    await pool.fetch(statement, [])
            finally:
                pool.close()

        with pytest.raises(DatabaseError) as raised:
            loop.run(fail())
        return describe(raised.value)


def by_psycopg(url: str, *statements: str) -> str:
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
        url = f"{pooler.url}?options=-c%20statement_timeout%3D0"
        refused = [by_psycopg(url), by_asyncpg(url)]
    finally:
        pooler.close()
    assert ["unsupported startup parameter: options" in each for each in refused] == [True, True]
    assert "Connection refused" in by_psycopg(pooler.url)
    assert f"127.0.0.1', {pooler.port}" in by_asyncpg(pooler.url)


def test_no_connection_left_is_named_behind_a_pooler_too() -> None:
    text = "server login has been failing, cached error: FATAL: sorry, too many clients already"
    assert sqlstate(psycopg.errors.ProtocolViolation(text)) == "53300"
    assert sqlstate(psycopg.errors.ProtocolViolation("unsupported startup parameter: options")) == "08P01"


def test_advice_that_was_followed_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    error = psycopg.errors.ReadOnlySqlTransaction()
    assert "Set target_session_attrs=read-write" in explain(error, "")
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], "target_session_attrs", "read-write")
    assert explain(error, "") == "The database accepts no writes: it is a standby, or set to read-only"


def test_messages_of_sqlite_are_shown() -> None:
    wrapped = OperationalError("Erika")
    wrapped.__cause__ = sqlite3.OperationalError("database is locked")
    assert describe(wrapped) == "OperationalError: database is locked"


def test_other_errors_are_named_only() -> None:
    assert describe(ValueError("Erika")) == "ValueError"
    assert describe(psycopg.DataError("Erika")) == "DataError"
