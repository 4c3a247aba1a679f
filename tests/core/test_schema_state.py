"""A database whose migrations are applied, but whose schema is another version's, is refused."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from core import db, schema_state
from tests.service import Service

COLUMN = "ALTER TABLE accounts_apitoken RENAME COLUMN note TO remark"
TRIGGER = {
    "postgresql": "DROP TRIGGER accounts_creditentry_append_only ON accounts_creditentry",
    "sqlite": "DROP TRIGGER accounts_creditentry_no_update",
}[db.VENDOR]


def change(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_migrated_database_has_no_problem(db: None) -> None:
    assert schema_state.problem() is None


@pytest.mark.parametrize(
    ("statement", "missing"),
    [(COLUMN, "accounts_apitoken.note"), (TRIGGER, TRIGGER.split()[2])],
    ids=["column", "trigger"],
)
def test_what_is_missing_is_named(db: None, client: Client, statement: str, missing: str) -> None:
    change(statement)
    expected = f"{schema_state.MISMATCH}: it lacks {missing}. Create it again (docs/upgrading.md)."
    assert schema_state.problem() == expected
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"detail": expected})


@pytest.mark.skipif(db.VENDOR == "sqlite", reason="SQLite lists no constraints")
def test_a_constraint_that_statements_need_is_named(db: None) -> None:
    change("ALTER TABLE accounts_idempotencyrecord DROP CONSTRAINT idempotencyrecord_key_once")
    assert "it lacks idempotencyrecord_key_once." in str(schema_state.problem())


@pytest.mark.once
@pytest.mark.slow
def test_the_service_does_not_start_on_such_a_database(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve()
    assert service.stop() == 0
    (file,) = Path(service.env["CALLERID_DATA_DIR"]).glob("*.sqlite3")
    with sqlite3.connect(file) as database:
        database.execute(COLUMN)
    command = [sys.executable, "-m", "callerid_project.serve"]
    started = subprocess.run(command, env=service.env, capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode == 3
    assert f"{schema_state.MISMATCH}: it lacks accounts_apitoken.note." in started.stderr
    assert "Traceback" not in started.stderr
