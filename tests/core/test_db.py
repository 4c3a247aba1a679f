"""Hand-written SQL statements, on either database."""

import pytest

from core.db import fetch, fetch_one, run


@pytest.mark.django_db
def test_fetch_one_returns_a_row_or_none() -> None:
    run("CREATE TEMPORARY TABLE sql_test (id bigint PRIMARY KEY, name text)")
    run("INSERT INTO sql_test VALUES (%s, %s)", [2**62, "Ünïcode %s $1 '"])
    assert fetch_one("SELECT id, name FROM sql_test WHERE id = %s", [2**62]) == (2**62, "Ünïcode %s $1 '")
    assert fetch_one("SELECT id FROM sql_test WHERE id = %s", [1]) is None
    assert fetch_one("UPDATE sql_test SET name = %s WHERE id = %s", [None, 2**62]) is None
    assert fetch("SELECT id, name FROM sql_test") == [(2**62, None)]
    run("DROP TABLE sql_test")
