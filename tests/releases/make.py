"""Writes the dumps of a release beside this file: `python -m tests.releases.make 0.1.0`.

Run it once for each release, at its commit, and commit the files: `tests/test_upgrades.py` upgrades each of them to the
code of today. Each has one row at least in every table (`rows.py`), and in its first line the JWT of a token.
"""

import contextlib
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from tests import plugin
from tests.servers import PostgresServer, postgres_binary
from tests.service import Service

HERE = Path(__file__).parent
#: The tokens of the dumps are signed with them.
KEYS = {name: f"the public {name} of the dumps of releases in tests" for name in plugin.KEYS}
UNWANTED = re.compile(r"\\|--|SELECT pg_catalog.set_config\(|SET (?!check_function_bodies|client_encoding)")
CREATE_ROWS = "from tests.releases.rows import create_rows; print(create_rows())"


def grants() -> str:
    return (plugin.ROOT / "deploy" / "postgresql" / "grants.sql").read_text(encoding="utf-8")


def filled(directory: Path, **environment: str) -> Service:
    """A migrated database with rows; the service is not started."""
    service = Service(directory, {**KEYS, **environment})
    service.manage("migrate", "--verbosity=0")
    return service


def dump_of_sqlite(directory: Path) -> str:
    service = filled(directory)
    api_key = service.manage("shell", "--no-imports", "-c", CREATE_ROWS).strip()
    with contextlib.closing(sqlite3.connect(directory / "data" / "callerid.sqlite3")) as database:
        return "\n".join([f"-- {api_key}", *database.iterdump(), ""])


def dump_of_postgresql(directory: Path) -> str:
    server = PostgresServer().start()
    try:
        service = filled(directory, DATABASE_URL=server.url, REDIS_URL="redis://127.0.0.1:1/0")
        api_key = service.manage("shell", "--no-imports", "-c", CREATE_ROWS).strip()
        with psycopg.connect(server.url, autocommit=True) as database:
            database.execute("CREATE ROLE callerid_serving; CREATE ROLE callerid_readonly")
            database.execute(grants().encode())
        dump = subprocess.run(
            [postgres_binary("pg_dump"), "--inserts", "--no-owner", "--no-comments", server.url],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        server.close()
    # Newer versions of pg_dump write commands of psql, and settings that older servers do not know.
    lines = [line for line in dump.splitlines() if line and not UNWANTED.match(line)]
    return "\n".join([f"-- {api_key}", *lines, ""])


def main(version: str) -> None:
    for database, dump in (("sqlite", dump_of_sqlite), ("postgresql", dump_of_postgresql)):
        with tempfile.TemporaryDirectory() as directory:
            path = HERE / f"{version}.{database}.sql"
            path.write_text(dump(Path(directory)), encoding="utf-8")
            print(path)  # noqa: T201  (its output)


if __name__ == "__main__":
    main(*sys.argv[1:])
