"""Hand-written SQL statements, on either database."""

import time
from typing import Any

import pytest
from django.db import OperationalError, connection

from core import db, loop
from core.db import VENDOR, fetch, fetch_one, run, statement_timeout


@pytest.mark.django_db
def test_fetch_one_returns_a_row_or_none() -> None:
    run("CREATE TEMPORARY TABLE sql_test (id bigint PRIMARY KEY, name text)")
    run("INSERT INTO sql_test VALUES (%s, %s)", [2**62, "Ünïcode %s $1 '"])
    assert fetch_one("SELECT id, name FROM sql_test WHERE id = %s", [2**62]) == (2**62, "Ünïcode %s $1 '")
    assert fetch_one("SELECT id FROM sql_test WHERE id = %s", [1]) is None
    assert fetch_one("UPDATE sql_test SET name = %s WHERE id = %s", [None, 2**62]) is None
    assert fetch("SELECT id, name FROM sql_test") == [(2**62, None)]
    run("DROP TABLE sql_test")


@pytest.mark.django_db
def test_statement_gets_its_parameters_by_name() -> None:
    statement = db.Statement("SELECT CAST(:first AS text), CAST(:second AS text), CAST(:first AS text), ':'")
    assert fetch_one(*statement({"second": "b", "other": "c", "first": "a"})) == ("a", "b", "a", ":")
    with pytest.raises(KeyError):
        statement({"first": "a"})
    assert db.Statement("SELECT :n::text")({"n": 1}) == ("SELECT %s::text", [1])


@pytest.mark.django_db(transaction=True)
def test_a_reports_statements_may_take_longer(settings: Any) -> None:
    """Neither the server nor the client ends them, and the limits are back afterwards, also after a failure."""
    settings.SERVING, settings.DB_STATEMENT_TIMEOUT_MS, settings.DB_MAX_WAIT_S = True, 100, 0.2
    if VENDOR == "sqlite":
        with statement_timeout(9):
            assert fetch("SELECT 1") == [(1,)]
        return
    connection.close()  # the next one has these limits
    sleep = "SELECT 1 FROM pg_sleep(0.5)"
    with statement_timeout(9):
        assert fetch(sleep) == [(1,)]
    with pytest.raises(OperationalError, match="statement timeout"):
        fetch(sleep)
    with pytest.raises(OperationalError, match="statement timeout"), statement_timeout(0.05):
        fetch(sleep)
    assert fetch("SHOW statement_timeout") == [("100ms",)]
    assert connection.connection.max_wait_s is None
    connection.close()


@pytest.mark.django_db
def test_a_searchs_time_for_sqlites_lock_ends_with_it(settings: Any) -> None:
    """Its thread's connection is used again, by searches that have more time."""
    if VENDOR != "sqlite":
        return
    settings.SERVING = True

    def waits_ms() -> int:
        return int(fetch_one("PRAGMA busy_timeout")[0])

    def fail() -> None:
        raise OperationalError

    async def commit() -> int:
        db.deadline.set(time.monotonic() + 0.9)
        with pytest.raises(OperationalError):
            await db.acommit_with_connection(fail)
        return await db.acommit_with_connection(waits_ms)

    usual_ms = waits_ms()
    assert loop.run(commit()) < 1_000 < usual_ms
    assert waits_ms() == usual_ms
