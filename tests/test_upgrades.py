"""The database of each release, migrated to this version, has the schema of a new one and its own rows, and serves."""

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import requests
from django.apps import apps
from psycopg import sql

from core.addons import Addon
from tests.releases.make import HERE, KEYS, dump_of_postgresql, grants
from tests.servers import fresh_database, required
from tests.service import LONG_TIMEOUTS, Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: A later version may add rows of its own to these.
GROWING = {"django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}
#: The queries of SQLite and PostgreSQL for tables with their columns, and for all else that a schema consists of.
COLUMNS = {
    "sqlite": "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
    " WHERE t.type = 'table' AND t.name <> 'sqlite_sequence'",
    "postgresql": "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
    " ORDER BY ordinal_position",
}
SCHEMA = {
    "sqlite": (
        """SELECT t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk
        FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'""",
        """SELECT t.name, f."from", f."table", f."to" FROM sqlite_master t, pragma_foreign_key_list(t.name) f""",
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')",
    ),
    "postgresql": (
        """SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
        pg_get_expr(adbin, adrelid) FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped""",
        """SELECT conrelid::regclass::text, conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace""",
        """SELECT indexdef, indisvalid FROM pg_indexes JOIN pg_index ON indexrelid = indexname::regclass
        WHERE schemaname = 'public'""",
        "SELECT tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
        """SELECT relname, grantee::regrole::text, privilege_type FROM pg_class, aclexplode(relacl)
        WHERE relnamespace = 'public'::regnamespace""",
        """SELECT relname, attname, grantee::regrole::text, privilege_type
        FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid, aclexplode(attacl)
        WHERE relnamespace = 'public'::regnamespace""",
    ),
}
#: The rows of the dump of 0.1.0 have ids that its sequences would give again.
SET_SEQUENCES = """
DO $$ DECLARE each record; BEGIN
    FOR each IN SELECT attrelid::regclass AS name, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'public'::regnamespace AND attidentity <> '' LOOP
        EXECUTE format('SELECT setval(pg_get_serial_sequence(%1$L, %2$L), max(%2$I)) FROM %1$s',
            each.name, each.attname);
    END LOOP;
END $$
"""


def dumps(database: str) -> list[Any]:
    paths = sorted(HERE.glob(f"*.{database}.sql"))
    assert paths
    return [pytest.param(path, id=path.name.removesuffix(f".{database}.sql")) for path in paths]


class Installation:
    """A service with its own database, which `connect` opens."""

    def __init__(self, directory: Path, vendor: str, connect: Callable[[], Any], **environment: str) -> None:
        (directory / "data").mkdir(parents=True)
        self.service = Service(directory, {**KEYS, **LONG_TIMEOUTS, **environment})
        self.vendor, self._connect = vendor, connect

    @contextlib.contextmanager
    def database(self) -> Iterator[Any]:
        with contextlib.closing(self._connect()) as database:
            yield database
            database.commit()

    def columns(self) -> dict[str, list[str]]:
        """The columns of each table."""
        tables = dict[str, list[str]]()
        with self.database() as database:
            for table, column in database.execute(COLUMNS[self.vendor]).fetchall():
                tables.setdefault(table, []).append(f'"{column}"')
        return tables

    def rows(self, columns: dict[str, list[str]]) -> dict[str, list[str]]:
        with self.database() as database:
            return {
                table: sorted(map(repr, database.execute(f'SELECT {", ".join(names)} FROM "{table}"').fetchall()))
                for table, names in columns.items()
            }

    def schema(self) -> list[list[str]]:
        with self.database() as database:
            parts = [database.execute(query).fetchall() for query in SCHEMA[self.vendor]]
            if self.vendor == "sqlite":
                tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
                parts.append([(name, sorted(re.findall(r'CONSTRAINT "(\w+)"', text))) for name, text in tables])
        return [sorted(map(repr, part)) for part in parts]

    def migrate(self) -> None:
        self.service.manage("migrate", "--verbosity=0")


def require_upgrade(dump: Path, installations: list[Installation], roles: dict[str, str]) -> None:
    text = dump.read_text(encoding="utf-8")
    old, new = installations
    with old.database() as database:
        (database.executescript if old.vendor == "sqlite" else database.execute)(with_roles(text, roles))
        if old.vendor == "postgresql":
            database.execute(SET_SEQUENCES)
    columns = old.columns()
    before = old.rows(columns)
    assert all(before.values())
    for each in (old, new):
        each.migrate()
        if roles:
            with each.database() as database:
                database.execute(with_roles(grants(), roles))
    before["django_content_type"] = [adopted(row) for row in before["django_content_type"]]
    after = old.rows(columns)
    for table, rows in before.items():
        kept = set(rows) <= set(after[table]) if table in GROWING else rows == after[table]
        assert kept, f"migrate changes rows of {table}"
    assert old.schema() == new.schema()
    old.service.manage("set_rule", "12125550142", "--spam", "no")  # a row with a new id
    body = {"api_key": text.partition("\n")[0].removeprefix("-- "), "query": "12125550100"}
    try:
        answer = requests.post(f"{old.service.start().url}/callerid/search", json=body, timeout=30)
        assert answer.json()["credits_remaining"] == 9
    finally:
        old.service.kill()


def adopted(content_type: str) -> str:
    """The row as it is after add-ons have adopted models."""
    for addon in apps.get_app_configs():
        for from_app, models in addon.adopts if isinstance(addon, Addon) else ():
            for model in models:
                content_type = content_type.replace(f"'{from_app}', '{model}'", f"'{addon.label}', '{model}'")
    return content_type


def with_roles(text: str, roles: dict[str, str]) -> str:
    return re.sub(r"callerid_(serving|readonly)", lambda role: roles.get(role[0], role[0]), text)


@pytest.mark.parametrize("dump", dumps("sqlite"))
def test_sqlite_database_of_a_release_is_upgraded(dump: Path, tmp_path: Path) -> None:
    installations = []
    for name in ("old", "new"):
        connect = partial(sqlite3.connect, tmp_path / name / "data" / "callerid.sqlite3")
        installations.append(Installation(tmp_path / name, "sqlite", connect, DATABASE_URL="", REDIS_URL=""))
    require_upgrade(dump, installations, roles={})


@pytest.fixture
def roles(_postgres_server_url: str) -> Iterator[dict[str, str]]:
    """Roles with the grants' names and a suffix, for roles are shared by all databases of the server."""
    names = {name: f"{name}_{uuid4().hex[:8]}" for name in ("callerid_serving", "callerid_readonly")}
    with psycopg.connect(_postgres_server_url, autocommit=True) as server:
        for role in names.values():
            server.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        yield names
        for role in names.values():
            server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture
def postgresql(
    _postgres_server_url: str, redis_url: str, tmp_path: Path, roles: dict[str, str]
) -> Iterator[list[Installation]]:
    with contextlib.ExitStack() as opened:
        urls = [opened.enter_context(fresh_database(_postgres_server_url)) for _ in range(2)]
        yield [
            Installation(
                tmp_path / name, "postgresql", partial(psycopg.connect, url), DATABASE_URL=url, REDIS_URL=redis_url
            )
            for name, url in zip(("old", "new"), urls, strict=True)
        ]


@pytest.mark.parametrize("dump", dumps("postgresql"))
def test_postgresql_database_of_a_release_is_upgraded(
    dump: Path, postgresql: list[Installation], roles: dict[str, str]
) -> None:
    require_upgrade(dump, postgresql, roles)


def test_sequences_of_a_new_dump_are_past_its_rows(tmp_path: Path) -> None:
    with required():
        dump = dump_of_postgresql(tmp_path)
    sequences = re.findall(r"setval\('public\.(\w+)', \d+, (true|false)\)", dump)
    assert [name for name, used in sequences if used == "false"] == []
    assert "accounts_apitoken_id_seq" in dict(sequences)
