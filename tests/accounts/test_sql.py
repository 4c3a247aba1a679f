"""Statements written by hand, run on either database."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.sql import one_row, run

postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's statements go through Django")


@pytest.fixture
def outside(transactional_db: None) -> Iterator[None]:
    """Of any transaction, with a table of its own."""
    run("CREATE TABLE sql_test (id bigint PRIMARY KEY, name text)", [])
    yield
    run("DROP TABLE sql_test", [])


def rows() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, name FROM sql_test ORDER BY id")
        return cursor.fetchall()


def test_a_row_or_none(outside: None) -> None:
    run("INSERT INTO sql_test VALUES (%s, %s)", [2**62, "Ünïcode %s $1 '"])
    assert one_row("SELECT id, name FROM sql_test WHERE id = %s", [2**62]) == (2**62, "Ünïcode %s $1 '")
    assert one_row("SELECT id FROM sql_test WHERE id = %s", [1]) is None
    assert one_row("UPDATE sql_test SET name = %s WHERE id = %s", [None, 2**62]) is None
    assert rows() == [(2**62, None)]


def test_what_is_first_in_a_transaction_is_rolled_back_with_it(outside: None) -> None:
    with transaction.atomic():
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        transaction.set_rollback(True)
    assert rows() == []
    with transaction.atomic():
        run("INSERT INTO sql_test VALUES (%s, %s)", [2, "x"])
        assert one_row("SELECT name FROM sql_test WHERE id = %s", [2]) == ("x",)
    assert rows() == [(2, "x")]


def test_after_a_transaction_that_failed_statements_run_as_before(outside: None) -> None:
    for _ in range(3):
        with pytest.raises(IntegrityError), transaction.atomic():
            run("INSERT INTO sql_test VALUES (%s, %s), (%s, %s)", [1, "x", 1, "x"])
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        with pytest.raises(IntegrityError):
            run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
        assert one_row("SELECT id FROM sql_test WHERE id = %s", [1]) == (1,)
        run("DELETE FROM sql_test WHERE id = %s", [1])


@postgresql
@pytest.mark.parametrize("captured", [False, True], ids=["prepared", "through Django"])
def test_values_arrive_and_come_back_as_django_takes_and_gives_them(outside: None, captured: bool) -> None:
    values = [None, True, -(2**62), "ä", b"\0\xff", datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2)]
    kinds = ["text", "boolean", "bigint", "text", "bytea", "timestamptz", "date"]
    statement = f"SELECT {', '.join(f'%s::{kind}' for kind in kinds)}"
    if captured:
        with CaptureQueriesContext(connection):
            row = one_row(statement, values)
    else:
        row = one_row(statement, values)
    assert row is not None
    assert [bytes(value) if isinstance(value, memoryview) else value for value in row] == values


@postgresql
def test_text_that_postgresql_cannot_hold_is_refused_and_not_cut_short(outside: None) -> None:
    with pytest.raises(DataError):
        run("INSERT INTO sql_test VALUES (%s, %s)", [1, "before\0after"])
    assert rows() == []


@postgresql
def test_a_statement_that_takes_too_long_is_an_operational_error_and_costs_no_connection(outside: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 50")
    try:
        with pytest.raises(OperationalError):
            one_row("SELECT pg_sleep(%s)", [20])
        assert one_row("SELECT %s::int", [1]) == (1,)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")


@postgresql
@pytest.mark.parametrize("voided", ["DEALLOCATE ALL", "DISCARD ALL", "ALTER TABLE sql_test ALTER name TYPE varchar(9)"])
def test_what_is_prepared_may_become_void(outside: None, voided: str) -> None:
    run("INSERT INTO sql_test VALUES (%s, %s)", [1, "x"])
    for _ in range(2):
        assert one_row("SELECT * FROM sql_test WHERE id = %s", [1]) == (1, "x")
        with connection.cursor() as cursor:
            cursor.execute(voided)
        assert one_row("SELECT * FROM sql_test WHERE id = %s", [1]) == (1, "x")


@postgresql
def test_nothing_is_prepared_where_a_pooler_could_not_follow(outside: None, settings: Any) -> None:
    settings.DB_PREPARE = False
    count = "SELECT count(*) FROM pg_prepared_statements"
    before = one_row(count, [])
    for value in range(7):
        assert one_row("SELECT %s::int + 1", [value]) == (value + 1,)
    assert one_row(count, []) == before
