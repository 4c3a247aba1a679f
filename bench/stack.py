"""The databases that the services run on, with our tables and data: PostgreSQL (durable) and Redis, or SQLite."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from bench.database import KEYS, Database
from tests.servers import PostgresServer, RedisServer, fresh_database

UNLIMITED = "100000000/m"


@dataclass(frozen=True)
class Stack:
    """The production profile. `pids`: the servers' main processes. `api_keys`: the tokens' JWTs in the order of their
    ids."""

    database_url: str
    redis_url: str
    pids: dict[str, int]
    database: Database
    api_keys: list[str]
    version: str

    def environment(self) -> dict[str, str]:
        """Returns the settings of a service. Its rate limit is never reached."""
        return {
            **KEYS,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "RATE_LIMIT": UNLIMITED,
        }

    def clean(self) -> None:
        """Removes what the previous service left: counters, dead rows, unwritten pages."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def credits(self) -> int:
        """Returns the sum of all balances."""
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute("SELECT sum(credits) FROM accounts_apitoken").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def production_stack() -> Iterator[Stack]:
    """Starts PostgreSQL and Redis with a filled database. Raises tests.servers.Unavailable."""
    with (
        closing(PostgresServer(durable=True).start()) as postgres,
        closing(RedisServer().start()) as cache,
        fresh_database(postgres.url) as url,
    ):
        database = Database({"DATABASE_URL": url, "REDIS_URL": cache.url})
        yield make_stack(postgres, cache, url, database, fill_database(database))


def make_stack(
    postgres: PostgresServer, cache: RedisServer, url: str, database: Database, api_keys: list[str]
) -> Stack:
    """Returns a Stack for the database at `url`, which contains the tokens of `api_keys`."""
    assert postgres.process is not None
    assert cache.process is not None
    return Stack(
        database_url=url,
        redis_url=cache.url,
        pids={"postgres": postgres.process.pid, "redis": cache.process.pid},
        database=database,
        api_keys=api_keys,
        version=_version(url, cache.url),
    )


@dataclass(frozen=True)
class EmbeddedStack:
    """The embedded profile: one SQLite file, which `clean` restores to its initial content."""

    directory: Path
    api_keys: list[str]
    pids: dict[str, int] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        return {**KEYS, "CALLERID_DATA_DIR": str(self.directory / "data"), "RATE_LIMIT": UNLIMITED}

    def clean(self) -> None:
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        shutil.copytree(self.directory / "filled", self.directory / "data")

    def credits(self) -> int:
        with closing(sqlite3.connect(self.directory / "data" / "callerid.sqlite3")) as connection:
            return int(connection.execute("SELECT sum(credits) FROM accounts_apitoken").fetchone()[0])


@contextmanager
def embedded_stack() -> Iterator[EmbeddedStack]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "filled").mkdir()
        database = Database({"CALLERID_DATA_DIR": str(directory / "filled")})
        yield EmbeddedStack(directory, fill_database(database))


def fill_database(database: Database) -> list[str]:
    """Inserts the data of bench.dataset. Returns the tokens' JWTs."""
    return _run_script(database, "from bench.dataset import fill; print(json.dumps(fill()))")


def sign_tokens(database: Database, ids: range) -> list[str]:
    """Returns the JWTs of the tokens with these ids."""
    return _run_script(database, f"from bench.dataset import sign; print(json.dumps(sign({ids!r})))")


def _run_script(database: Database, script: str) -> list[str]:
    output = database.manage("shell", "--no-imports", "-c", f"import json; {script}")
    return list(json.loads(output.splitlines()[-1]))


def _version(database_url: str, redis_url: str) -> str:
    with psycopg.connect(database_url) as connection, redis.Redis.from_url(redis_url) as client:
        server, *durable = (
            str(connection.execute(f"SHOW {name}").fetchall()[0][0])
            for name in ("server_version", "fsync", "synchronous_commit")
        )
        postgres = f"PostgreSQL {server.split()[0]} (fsync {durable[0]}, synchronous_commit {durable[1]})"
        return f"{postgres}, Redis {client.info('server')['redis_version']}"
