"""A database whose migrations are applied, but whose schema is another version's, is refused."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from callerid_project.system_checks import check_numbers_of_absent_addons
from core import db, loop, schema_state
from monitoring.health import probes
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
    expected = f"The database's schema lacks {missing} (docs/upgrading.md)"
    assert schema_state.problem() == expected
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"detail": expected})


@pytest.mark.skipif(db.VENDOR == "sqlite", reason="SQLite lists no constraints")
def test_a_constraint_that_statements_need_is_named(db: None) -> None:
    change("ALTER TABLE accounts_idempotencyrecord DROP CONSTRAINT idempotencyrecord_key_once")
    assert "lacks idempotencyrecord_key_once " in str(schema_state.problem())


@pytest.mark.skipif(db.VENDOR == "sqlite", reason="SQLite cannot disable triggers")
def test_a_disabled_trigger_is_missing(db: None) -> None:
    change("ALTER TABLE accounts_creditentry DISABLE TRIGGER USER")
    assert "lacks accounts_creditentry_append_only, " in str(schema_state.problem())


@pytest.mark.skipif(db.VENDOR == "sqlite", reason="SQLite has no schemas")
def test_tables_are_found_as_statements_find_them(db: None) -> None:
    change('CREATE SCHEMA "Of-the-role"')
    change('SET LOCAL search_path = "Of-the-role", public')
    assert schema_state.problem() is None


def before_0_1_0(database: Any) -> None:
    """The migrations of the four packages that became seven apps."""
    database.execute("DELETE FROM django_migrations WHERE app IN ('console', 'monitoring', 'phonebook')")
    database.execute(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('lookup', '0004_request_log', '2026-11-23')"
    )


def test_a_database_from_before_0_1_0_is_not_migrated(db: None, client: Client) -> None:
    with connection.cursor() as cursor:
        before_0_1_0(cursor)
    assert schema_state.problem() == schema_state.TOO_OLD
    for command in ("migrate", "quickstart"):
        with pytest.raises(CommandError, match=re.escape(schema_state.TOO_OLD)):
            call_command(command, verbosity=0)
    assert client.get("/readyz").json() == {"detail": schema_state.TOO_OLD}


def test_migrations_of_a_newer_version_are_no_problem(db: None) -> None:
    change("INSERT INTO django_migrations (app, name, applied) VALUES ('lookup', '9999_newer', '2030-01-01')")
    assert schema_state.problem() is None


@pytest.mark.parametrize("column", schema_state.NUMBER_COLUMNS)
def test_numbers_of_an_absent_add_on_are_a_problem(db: None, column: str) -> None:
    change(f"CREATE TABLE lookup_absent (id integer, {column} integer)")
    change("INSERT INTO lookup_absent VALUES (1, NULL)")
    assert schema_state.problem() is None
    assert check_numbers_of_absent_addons(["default"]) == []
    change("INSERT INTO lookup_absent VALUES (2, 44)")
    said = str(schema_state.problem())
    assert said == (
        "No add-on in ADDONS uses lookup_absent, so `forget` would not erase the phone numbers there: add the add-on "
        "to ADDONS, or see Leave one out in docs/addons.md"
    )
    (error,) = check_numbers_of_absent_addons(["default"])
    assert (error.id, error.msg) == ("callerid.E002", f"{said}.")
    assert check_numbers_of_absent_addons() == []
    assert loop.run(probes.reason_to_refuse_start()) == said


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM django_migrations WHERE app = 'lookup' AND name LIKE '0001%'",
        "INSERT INTO django_migrations (app, name, applied) VALUES ('lookup', '9999_newer', '2030-01-01')",
        "ALTER TABLE lookup_absent RENAME TO other_program",
    ],
    ids=["older", "newer", "other program"],
)
def test_tables_of_other_versions_and_programs_are_none(db: None, statement: str) -> None:
    change("CREATE TABLE lookup_absent (number integer)")
    change("INSERT INTO lookup_absent VALUES (44)")
    change(statement)
    assert schema_state.problem() in (None, schema_state.NOT_MIGRATED)
    assert check_numbers_of_absent_addons(["default"]) == []


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (COLUMN, "The database's schema lacks accounts_apitoken.note (docs/upgrading.md)"),
        ("CREATE TABLE lookup_absent AS SELECT 44 AS number", "No add-on in ADDONS uses lookup_absent"),
    ],
    ids=["column", "numbers"],
)
def test_the_service_does_not_start_on_such_a_database(
    serve: Callable[..., Service], statement: str, said: str
) -> None:
    service = serve(DATABASE_URL="", REDIS_URL="")
    assert service.stop() == 0
    (file,) = Path(service.env["CALLERID_DATA_DIR"]).glob("*.sqlite3")
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(statement)
    command = [sys.executable, "-m", "callerid_project.serve"]
    started = subprocess.run(command, env=service.env, capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode == 3
    assert said in started.stderr
    assert "Traceback" not in started.stderr
