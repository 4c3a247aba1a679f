"""Temporary PostgreSQL, PgBouncer and Redis servers, each with its own port and directory.

All are stopped and removed at exit, whatever the result of their test.
"""

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
import redis
from psycopg import sql

START_S = 30


class Unavailable(Exception):
    """The server cannot be started here; the message says why."""


@contextlib.contextmanager
def required() -> Iterator[None]:
    """If the server is unavailable, skip the test or the module; in CI, fail."""
    try:
        yield
    except Unavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error), allow_module_level=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ABC):
    """A server process on 127.0.0.1 that a test may end, kill, freeze and start again on the same port."""

    def __init__(self) -> None:
        self.port = free_port()
        # Not in $TMPDIR, which the user that the server runs as may not be able to read.
        self.directory = Path(tempfile.mkdtemp(prefix="callerid-test-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None
        self._running_as: dict[str, Any] = {}
        atexit.register(self.close)

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def require_answer(self) -> None:
        """Raises while the server does not answer."""

    def start(self) -> Self:
        """Return once it responds. Raises Unavailable if it does not."""
        log = self.directory / "log"
        with log.open("ab") as output:
            # In its own session: Ctrl-C ends the tests, which then stop it in order.
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                start_new_session=True,
                **self._running_as,
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.require_answer()
                return self
            except (psycopg.OperationalError, redis.RedisError, OSError) as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise Unavailable(f"{self.command()[0]} does not start:\n{log.read_text()}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop in order: connections are closed, the data stays. Does nothing if it has stopped."""
        if self.process is not None:
            self.resume()
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Like a power failure, except for what the kernel has yet to write."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Until `resume`, neither the server nor its child processes respond; connections stay open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)  # first, so that it starts no more
        self._signal_children(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self._signal_children(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def _signal_children(self, number: signal.Signals) -> None:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with contextlib.suppress(FileNotFoundError):  # it has ended
            for pid in map(int, children.read_text(encoding="ascii").split()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def close(self) -> None:
        """Stop, and delete its directory."""
        atexit.unregister(self.close)
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class RedisServer(Server):
    """With these options. Stores nothing on disk: its data is lost by `stop` and `kill`."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        binary = shutil.which("redis-server") or shutil.which("valkey-server")
        if binary is None:
            raise Unavailable("there is no redis-server on PATH")
        unsaved = ["--save", "", "--appendonly", "no"]
        return [binary, "--port", str(self.port), "--bind", "127.0.0.1", *unsaved, *self._options]

    def require_answer(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1) as client:
            client.ping()


class PostgresServer(Server):
    """Its own cluster; user postgres, no password. `durable=True` for tests that simulate a power failure."""

    def __init__(self, *, durable: bool = False) -> None:
        super().__init__()
        self.durable = durable

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        return [
            postgres_binary("postgres"),
            *("-D", str(self.directory / "data"), "-p", str(self.port), "-k", str(self.directory)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"),
            *(() if self.durable else ("-c", "fsync=off", "-c", "full_page_writes=off")),
        ]

    def require_answer(self) -> None:
        psycopg.connect(self.url, connect_timeout=2).close()

    def start(self) -> Self:
        if not (self.directory / "data").exists():
            self._make_cluster()
        return super().start()

    def as_unprivileged_user(self) -> dict[str, Any]:
        """Popen's arguments for its programs, which refuse to run as root."""
        if os.getuid() == 0 and not self._running_as:
            self._running_as = _as_unprivileged_user(self.directory)
        return self._running_as

    def _make_cluster(self) -> None:
        self.as_unprivileged_user()
        subprocess.run(["cp", "-a", str(_new_cluster()), str(self.directory / "data")], check=True)  # with its owner


class PgBouncer(Server):
    """In front of the PostgreSQL at `postgres_url`, each transaction, or each session, on one of its server
    connections."""

    def __init__(self, postgres_url: str, *, pool_mode: str = "transaction", connections: int = 2) -> None:
        super().__init__()
        self._pool_mode, self._connections = pool_mode, connections
        self._to = urlsplit(postgres_url)

    @property
    def url(self) -> str:
        return self._to._replace(netloc=f"{self._to.username}@127.0.0.1:{self.port}").geturl()

    def command(self) -> list[str]:
        binary = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if binary is None:
            raise Unavailable("there is no pgbouncer on PATH or in /usr/sbin")
        return [binary, str(self.directory / "pgbouncer.ini")]

    def require_answer(self) -> None:
        psycopg.connect(self.url, connect_timeout=2).close()

    def start(self) -> Self:
        (self.directory / "users").write_text(f'"{self._to.username}" "{self._to.password or ""}"\n')
        (self.directory / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={self._to.hostname} port={self._to.port or 5432}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.directory / 'users'}\n"
            f"pool_mode = {self._pool_mode}\ndefault_pool_size = {self._connections}\n"
        )
        if os.getuid() == 0:  # it refuses to run as root
            self._running_as = _as_unprivileged_user(self.directory)
        return super().start()

    def stop(self) -> None:
        """Immediately: an orderly stop would wait for its clients."""
        self.kill()


@functools.cache
def _new_cluster() -> Path:
    """A cluster that is never started, only copied: initdb, which takes a second, runs once in a process."""
    directory = Path(tempfile.mkdtemp(prefix="callerid-test-", dir="/tmp"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    made = subprocess.run(
        [
            *(postgres_binary("initdb"), "-D", str(directory / "data"), "-U", "postgres", "-A", "trust"),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        **(_as_unprivileged_user(directory) if os.getuid() == 0 else {}),
    )
    if made.returncode:
        raise Unavailable(f"initdb failed:\n{made.stdout}{made.stderr}")
    return directory / "data"


def postgres_binary(name: str) -> str:
    """`name` from PATH, from where pg_config says, or the newest of a Debian-like system's versions."""
    if found := shutil.which(name):
        return found
    directories: list[Path] = []
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        directories.append(Path(said.stdout.strip()))
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    directories += sorted(versions, key=lambda path: int(path.parent.name), reverse=True)
    for directory in directories:
        if os.access(directory / name, os.X_OK):
            return str(directory / name)
    raise Unavailable(f"PostgreSQL's {name} is neither on PATH nor where pg_config or /usr/lib/postgresql have it")


def _as_unprivileged_user(directory: Path) -> dict[str, Any]:
    """Popen's arguments to run as an unprivileged user, who becomes the owner of `directory`."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            os.chown(directory, user.pw_uid, user.pw_gid)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise Unavailable("it does not run as root, and there is neither a user postgres nor nobody")


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """The URL of a new, empty database on the server at `server_url`, which is dropped afterwards."""
    name = f"callerid_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    head, _, options = server_url.partition("?")
    try:
        yield head.rpartition("/")[0] + "/" + name + (f"?{options}" if options else "")
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
