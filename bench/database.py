"""A migrated database with the numbering plan, and the commands that run on it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
KEYS = {
    name: letter * 40 for name, letter in zip(("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY"), "abc", strict=True)
}


class Database:
    """Runs `manage.py` with the environment of one database."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.env = {**os.environ, **KEYS, **environment}
        self.manage("migrate", "--verbosity=0")
        self.manage("load_numbering_plan")

    def manage(self, *arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def timed(self, *arguments: str) -> tuple[float, float]:
        """Runs a command. Returns its duration in seconds and its peak resident memory in MB."""
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.env, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return time.monotonic() - started, usage.ru_maxrss / 1024

    def seconds(self, *arguments: str) -> float:
        return self.timed(*arguments)[0]


@contextmanager
def without_indexes(connection: psycopg.Connection, table: str) -> Iterator[None]:
    """Drops the table's indexes that no constraint needs and creates them again, which is faster for many rows; also
    turns foreign key checks off."""
    indexes = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s AND indexdef LIKE 'CREATE INDEX%%'", [table]
    ).fetchall()
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET maintenance_work_mem = '1GB'")
    for name, _ in indexes:
        connection.execute(f'DROP INDEX "{name}"')
    yield
    for _, definition in indexes:
        connection.execute(definition)


def psql(url: str, script: str) -> str:
    return subprocess.run(
        ["psql", "-qAt", "-v", "ON_ERROR_STOP=1", url], input=script, check=True, capture_output=True, text=True
    ).stdout
