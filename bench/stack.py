"""What contenders stand on, with our tables and rows: one durable PostgreSQL and one Redis of the bench's own, or
SQLite."""

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
    """`pids`: the servers' main processes. `api_keys`: the tokens' JWTs, in the order of their ids."""

    database_url: str
    redis_url: str
    pids: dict[str, int]
    database: Database
    api_keys: list[str]
    version: str

    def environment(self) -> dict[str, str]:
        """What a contender runs in: limits and balances are never met."""
        return {
            **KEYS,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "RATE_LIMIT": UNLIMITED,
        }

    def clean(self) -> None:
        """No contender pays for what another has left behind: counters, dead rows, pages to write."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def credits(self) -> int:
        """On all tokens together."""
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute("SELECT sum(credits) FROM accounts_apitoken").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def standing() -> Iterator[Stack]:
    """Raises servers.Unavailable."""
    with (
        closing(PostgresServer(durable=True).start()) as postgres,
        closing(RedisServer().start()) as cache,
        fresh_database(postgres.url) as url,
    ):
        database = Database({"DATABASE_URL": url, "REDIS_URL": cache.url})
        yield stack_on(postgres, cache, url, database, filled(database))


def stack_on(postgres: PostgresServer, cache: RedisServer, url: str, database: Database, api_keys: list[str]) -> Stack:
    """`url`: of that database, which has the tokens of `api_keys`."""
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
class Embedded:
    """The embedded profile: one SQLite file, which every contender gets as it was filled."""

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
def embedded() -> Iterator[Embedded]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "filled").mkdir()
        database = Database({"CALLERID_DATA_DIR": str(directory / "filled")})
        yield Embedded(directory, filled(database))


def filled(database: Database) -> list[str]:
    """The JWTs of the tokens that are in it now, with all other rows of bench.rows."""
    return _printed(database, "from bench.rows import fill; print(json.dumps(fill()))")


def signed(database: Database, ids: range) -> list[str]:
    """The JWTs of tokens with these ids."""
    return _printed(database, f"from bench.rows import sign; print(json.dumps(sign({ids!r})))")


def _printed(database: Database, script: str) -> list[str]:
    said = database.manage("shell", "--no-imports", "-c", f"import json; {script}")
    return list(json.loads(said.splitlines()[-1]))


def _version(database_url: str, redis_url: str) -> str:
    with psycopg.connect(database_url) as connection, redis.Redis.from_url(redis_url) as client:
        server, *durable = (
            str(connection.execute(f"SHOW {name}").fetchall()[0][0])
            for name in ("server_version", "fsync", "synchronous_commit")
        )
        told = f"PostgreSQL {server.split()[0]} (fsync {durable[0]}, synchronous_commit {durable[1]})"
        return f"{told}, Redis {client.info('server')['redis_version']}"
