"""Hand-written SQL statements, on either database."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError, connection, transaction

from core.db import fetch_one, run

postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite accepts it, or has no such limit")


@pytest.fixture
def outside(transactional_db: None) -> Iterator[None]:
    """Outside any transaction, with a table of the test's own."""
    run("CREATE TABLE sql_test (id bigint PRIMARY KEY, name text)", [])
    yield
    run("DROP TABLE sql_test", [])


def rows() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, name FROM sql_test ORDER BY id")
        return cursor.fetchall()


def test_fetch_one_returns_a_row_or_none(outside: None) -> None:
    run("INSERT INTO sql_test VALUES (%s, %s)", [2**62, "Ünïcode %s $1 '"])
    assert fetch_one("SELECT id, name FROM sql_test WHERE id = %s", [2**62]) == (2**62, "Ünïcode %s $1 '")
    assert fetch_one("SELECT id FROM sql_test WHERE id = %s", [1]) is None
    assert fetch_one("UPDATE sql_test SET name = %s WHERE id = %s", [None, 2**62]) is None
    assert rows() == [(2**62, None)]


def test_first_statement_of_a_transaction_is_rolled_back(outside: None) -> None:
    with transaction.atomic():
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        transaction.set_rollback(True)
    assert rows() == []
    with transaction.atomic():
        run("INSERT INTO sql_test VALUES (%s, %s)", [2, "x"])
        assert fetch_one("SELECT name FROM sql_test WHERE id = %s", [2]) == ("x",)
    assert rows() == [(2, "x")]


def test_statements_run_after_a_failed_transaction(outside: None) -> None:
    for _ in range(3):
        with pytest.raises(IntegrityError), transaction.atomic():
            run("INSERT INTO sql_test VALUES (%s, %s), (%s, %s)", [1, "x", 1, "x"])
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        with pytest.raises(IntegrityError):
            run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        assert fetch_one("SELECT id FROM sql_test WHERE id = %s", [1]) == (1,)
        run("DELETE FROM sql_test WHERE id = %s", [1])


@postgresql
def test_text_with_a_null_character_is_refused(outside: None) -> None:
    with pytest.raises(DataError):
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "before\0after"])
    assert rows() == []


@postgresql
def test_statement_timeout_keeps_the_connection(outside: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 50")
    try:
        with pytest.raises(OperationalError):
            fetch_one("SELECT pg_sleep(%s)", [20])
        assert fetch_one("SELECT %s::int", [1]) == (1,)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
