"""Fixtures for the whole suite: real servers, the service itself, and a flush that the append-only ledger allows."""

import contextlib
import shutil
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management.commands import flush
from django.db import connections

from core import write_buffer
from lookup import pages
from tests import plugin
from tests.servers import PostgresServer, RedisServer, fresh_database, required
from tests.service import Service, serving
from tests.upstream import Behaviour, Upstream

pytest_plugins = ["tests.account_fixtures", "tests.api", "tests.source_fixtures"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Those of add-ons that are not chosen."""
    package = plugin.ROOT / "contrib"
    is_addon = collection_path.parent == package and collection_path.is_dir()
    return True if is_addon and collection_path.name not in settings.ADDONS else None


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes are named by their argument: gzip's contain the time, and all workers must collect the same tests."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if plugin.SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    tmp_path_factory: pytest.TempPathFactory, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """SQLite in a file, as it is run: in memory it knows no WAL, and other threads get another kind of lock."""
    database = connections["default"]
    if database.vendor == "sqlite":
        database.settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """A good hash of a password takes most of a second; no test is about it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _static_files_on_request(settings: Any) -> None:
    """Each test client has middleware of its own, and WhiteNoise's would list all static files first (40 ms)."""
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture(autouse=True)
def _schema_is_generated_anew() -> None:
    """A test may change the settings that the OpenAPI document is made of."""
    pages.openapi_document.cache_clear()


@pytest.fixture
def process_buffer() -> write_buffer.WriteBuffer:
    """New for each test (tests.api); written only by `flush`."""
    return write_buffer.process_buffer


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """`at(when)`: what is counted is counted then."""

    def set_clock(when: datetime) -> None:
        for statistics in ("accounts.request_statistics", "monitoring.source_statistics"):
            monkeypatch.setattr(f"{statistics}.time", SimpleNamespace(time=when.timestamp))

    return set_clock


@contextlib.contextmanager
def ledger_without_triggers(connection: Any) -> Iterator[None]:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE '%creditentry'"
            )
            triggers = cursor.fetchall()
            for name, _ in triggers:
                cursor.execute(f"DROP TRIGGER {name}")
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                for _, statement in triggers:
                    cursor.execute(statement)
        return
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_creditentry DISABLE TRIGGER USER")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE accounts_creditentry ENABLE TRIGGER USER")


@pytest.fixture(scope="session", autouse=True)
def _flush_past_the_ledger_triggers() -> Iterator[None]:
    """After a transactional test Django empties the tables, on SQLite by DELETE and on PostgreSQL by TRUNCATE. The
    ledger's triggers refuse both."""
    flush_all = flush.Command.handle

    def handle(self: flush.Command, **options: Any) -> None:
        with ledger_without_triggers(connections[options["database"]]):
            flush_all(self, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flush.Command, "handle", handle)
        yield


@pytest.fixture(scope="session")
def _postgres_server_url() -> Iterator[str]:
    if url := plugin.named.get("DATABASE_URL"):
        yield url
        return
    with required():
        server = PostgresServer().start()
    yield server.url
    server.close()


@pytest.fixture
def postgres_url(_postgres_server_url: str) -> Iterator[str]:
    """A new, empty database."""
    with fresh_database(_postgres_server_url) as url:
        yield url


@pytest.fixture
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of the test's own, to stop the processes of, or to read the log of."""
    with required():
        server = PostgresServer().start()
    yield server
    server.close()


@pytest.fixture
def start_redis() -> Iterator[Callable[..., RedisServer]]:
    """Starts a Redis with these options."""
    servers: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        with required():
            servers.append(RedisServer(*options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def redis_server(start_redis: Callable[..., RedisServer]) -> RedisServer:
    """A Redis of the test's own, to stop, kill, pause and start again."""
    return start_redis()


@pytest.fixture
def redis_url(request: pytest.FixtureRequest) -> str:
    """An empty Redis: the test's own, or the one that the environment names where none can be started."""
    url = plugin.named.get("REDIS_URL")
    if url is None or shutil.which("redis-server"):
        return str(request.getfixturevalue("redis_server").url)
    redis.Redis.from_url(url).flushdb()
    return url


@pytest.fixture
def serve(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Service]]:
    """`serve(RATE_LIMIT="1000/m", ...)` starts the service in that environment, its database migrated.

    What is not given is the suite's profile: a database of its own, and on the production profile `redis_url`.
    """
    with contextlib.ExitStack() as opened:

        def start(**environment: str) -> Service:
            if plugin.production():
                if "DATABASE_URL" not in environment:
                    server_url = request.getfixturevalue("_postgres_server_url")
                    environment["DATABASE_URL"] = opened.enter_context(fresh_database(server_url))
                if "REDIS_URL" not in environment:
                    environment["REDIS_URL"] = request.getfixturevalue("redis_url")
            directory = tmp_path / f"service-{len(list(tmp_path.glob('service-*')))}"
            directory.mkdir()
            return opened.enter_context(serving(directory, environment, shared=tmp_path_factory.getbasetemp()))

        yield start


@pytest.fixture
def vendor() -> Iterator[Callable[..., Upstream]]:
    """`vendor(behave)`: a mock vendor, or another HTTP server, on loopback."""
    started: list[Upstream] = []

    def start(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Upstream:
        started.append(Upstream(behave, tls).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()
