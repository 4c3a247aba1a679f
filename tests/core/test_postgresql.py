"""PostgreSQL on the event loop: the time limit of every wait, broken connections, several hosts, and errors."""

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, nullcontext
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, TypeVar

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError, transaction
from django.db.utils import ConnectionHandler
from psycopg import conninfo

from callerid_project import databases
from callerid_project.environment import Environment
from core import commits, db, loop
from core.database_errors import ConnectionLost, NotSent, OutOfTime, describe
from core.postgresql import base, replication
from core.postgresql import pool as pools
from core.postgresql.pool import Pool
from tests.clusters import PostgresPair
from tests.lookup.vendors.searches import until
from tests.servers import required

T = TypeVar("T")
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
Work = Callable[[Pool], Coroutine[Any, Any, T]]


class Database:
    """A new database. `with_pool`: the result of a coroutine that uses a pool of it."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        self.parameters = conninfo.conninfo_to_dict(url)
        self._monkeypatch = monkeypatch

    def with_pool(self, work: Work[T], *, size: int = 2, max_wait_s: float = 20, **parameters: Any) -> T:
        known = {**self.parameters, **parameters}
        self._monkeypatch.setattr(pools, "connection", SimpleNamespace(get_connection_params=lambda: known))

        async def use() -> T:
            pool = Pool(size, max_wait_s)
            await pool.open()
            try:
                return await work(pool)
            finally:
                pool.close()

        return loop.run(use())

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection

    def rows(self) -> list[int]:
        with self.connect() as connection:
            return [row[0] for row in connection.execute("SELECT id FROM pool_test ORDER BY id")]

    def backends(self) -> int:
        """How many connections the pool has, by the server."""
        with self.connect() as connection:
            (count,) = connection.execute(f"SELECT count(*) {OTHERS}").fetchone() or (0,)
            return int(count)

    def end_all(self) -> None:
        with self.connect() as connection:
            connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {OTHERS}")


@pytest.fixture
def database(postgres_url: str, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Database:
    settings.DB_STATEMENT_TIMEOUT_MS, settings.DB_PREPARE = 0, True
    database = Database(postgres_url, monkeypatch)
    with database.connect() as connection:
        connection.execute("CREATE TABLE pool_test (id bigint PRIMARY KEY, name text)")
    return database


@pytest.mark.parametrize(
    ("statement", "is_write"),
    [
        ("\nUPDATE a SET b = 1", True),
        ("WITH c AS (SELECT 1) INSERT INTO a SELECT * FROM c", True),
        ("insert into a values (1)", True),
        ("SELECT 1 FROM a FOR NO KEY UPDATE", True),
        ("SELECT updated_at, is_deleted FROM inserts", False),
    ],
)
def test_statements_that_write_are_recognized(statement: str, is_write: bool) -> None:
    assert bool(base.WRITES.search(statement)) == is_write


# --- Values and errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare", [True, False])
def test_values_are_converted_as_django_converts_them(database: Database, settings: Any, prepare: bool) -> None:
    settings.DB_PREPARE = prepare
    values = [None, True, -(2**62), "ä %s $1 '", b"\0\xff", datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2)]
    kinds = ["text", "boolean", "bigint", "text", "bytea", "timestamptz", "date"]
    statement = f"SELECT {', '.join(f'%s::{kind}' for kind in kinds)}"
    assert [tuple(row) for row in database.with_pool(lambda pool: pool.fetch(statement, values))] == [tuple(values)]


@pytest.mark.parametrize(
    ("statement", "parameters", "error"),
    [
        ("INSERT INTO pool_test VALUES (%s, 'x'), (1, 'y')", [1], IntegrityError),
        ("INSERT INTO pool_test VALUES (1, %s)", ["before\0after"], DataError),
        ("SELECT 1 / %s::int", [0], DataError),
        ("SELECT %s::int", ["not a number"], DataError),
        ("SELECT missing FROM pool_test WHERE id = %s", [1], DatabaseError),
        ("SELECT pg_sleep(%s::int) FROM set_config('statement_timeout', '50', false)", [20], DatabaseError),
    ],
)
def test_refused_statement_raises_djangos_error(
    database: Database, settings: Any, statement: str, parameters: list[Any], error: type[Exception]
) -> None:
    settings.DB_STATEMENT_TIMEOUT_MS = 500

    async def work(pool: Pool) -> int:
        (before,) = (await pool.fetch("SELECT pg_backend_pid()", []))[0]
        with pytest.raises(error) as raised:
            await pool.fetch(statement, parameters)
        assert not isinstance(raised.value, NotSent | ConnectionLost)
        (after,) = (await pool.fetch("SELECT pg_backend_pid()", []))[0]
        return int(before - after)

    assert database.with_pool(work, size=1) == 0  # the connection stays
    assert database.rows() == []


@pytest.mark.parametrize("change", ["ALTER name TYPE varchar(9)", "ADD x int"])
def test_a_change_of_the_schema_fails_no_statement(database: Database, change: str) -> None:
    async def work(pool: Pool) -> list[Any]:
        await pool.fetch("INSERT INTO pool_test VALUES (%s, %s)", [1, "x"])
        before = await pool.fetch("SELECT * FROM pool_test WHERE id = %s", [1])
        await pool.fetch(f"ALTER TABLE pool_test {change}", [])
        return [tuple(before[0])[:2], tuple((await pool.fetch("SELECT * FROM pool_test WHERE id = %s", [1]))[0])[:2]]

    assert database.with_pool(work, size=1) == [(1, "x")] * 2


@pytest.mark.parametrize(("prepare", "prepared"), [(True, True), (False, False)])
def test_statements_stay_prepared_unless_db_prepare_is_false(
    database: Database, settings: Any, prepare: bool, prepared: bool
) -> None:
    settings.DB_PREPARE = prepare

    async def work(pool: Pool) -> int:
        for value in range(7):
            await pool.fetch("SELECT %s::int + 1", [value])
        return int(
            (await pool.fetch("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%+ 1'", []))[0][0]
        )

    assert bool(database.with_pool(work, size=1)) == prepared


@pytest.mark.parametrize(("prepare", "timeout"), [(True, "700ms"), (False, "0")])
def test_server_limits_statements_too_unless_behind_a_pooler(
    database: Database, settings: Any, prepare: bool, timeout: str
) -> None:
    settings.DB_STATEMENT_TIMEOUT_MS, settings.DB_PREPARE = 700, prepare
    assert database.with_pool(lambda pool: pool.fetch("SHOW statement_timeout", []))[0][0] == timeout


def test_a_line_about_a_connection_says_what_is_wrong(database: Database) -> None:
    async def work(pool: Pool) -> str:
        with pytest.raises(NotSent) as raised:
            await pool.fetch("SELECT 1", [])
        return describe(raised.value)

    assert "Connect call failed ('127.0.0.1', 1)" in database.with_pool(work, host="127.0.0.1", port=1)
    described = database.with_pool(work, dbname="missing")
    assert described == 'NotSent: 3D000 database "missing" does not exist'


# --- Waits -----------------------------------------------------------------------------------------------------------


def test_a_late_reply_closes_the_connection_without_a_cancel(database: Database) -> None:
    """The server executes the statement to its end: after a cancel request, the row would not be there."""

    async def work(pool: Pool) -> None:
        with pytest.raises(ConnectionLost):
            await pool.fetch("INSERT INTO pool_test SELECT 7, 'x' FROM pg_sleep(%s::float)", [1.5])
        assert pool.sizes() == (0, 0, 1)
        assert (await pool.fetch("SELECT 1", []))[0][0] == 1

    database.with_pool(work, size=1, max_wait_s=0.5)
    until(lambda: database.rows() == [7])


def test_a_reply_that_arrived_while_the_loop_was_late_is_used(database: Database) -> None:
    async def work(pool: Pool) -> None:
        asyncio.get_running_loop().call_later(0.1, time.sleep, 1.5)  # while the server works
        assert (await pool.fetch("SELECT 5 FROM pg_sleep(0.2)", []))[0][0] == 5
        assert pool.sizes() == (1, 1, 1)

    database.with_pool(work, size=1, max_wait_s=0.5)


def test_a_turn_that_came_while_the_loop_was_late_is_used(database: Database) -> None:
    async def work(pool: Pool) -> None:
        first = asyncio.create_task(pool.fetch("SELECT 1 FROM pg_sleep(0.2)", []))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.1, time.sleep, 1.5)  # while the server works
        assert (await pool.fetch("SELECT 2", []))[0][0] == 2
        assert (await first)[0][0] == 1

    database.with_pool(work, size=1, max_wait_s=0.5)


def test_a_cancelled_search_leaves_no_connection_in_use(database: Database) -> None:
    async def work(pool: Pool) -> tuple[int, int, int]:
        for _ in range(20):
            task = asyncio.create_task(pool.fetch("SELECT pg_sleep(60)", []))
            while not (pool.sizes()[0] and not pool.sizes()[1]):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        waiting = asyncio.gather(*(pool.fetch("SELECT 1", []) for _ in range(9)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await pool.fetch("SELECT 1", []))[0][0] == 1
        open_, idle, most = pool.sizes()
        return open_ - idle, open_, most

    in_use, open_, most = database.with_pool(work, size=1)
    assert (in_use, most) == (0, 1)
    assert open_ == 1


def test_without_a_free_connection_nothing_is_sent(database: Database) -> None:
    async def work(pool: Pool) -> None:
        busy = asyncio.create_task(pool.fetch("SELECT pg_sleep(1.5)", []))
        await asyncio.sleep(0)  # it has the connection
        pool._max_wait_s = 0.5
        with pytest.raises(NotSent):
            await pool.fetch("INSERT INTO pool_test VALUES (1, 'x')", [])
        await busy
        assert (await pool.fetch("SELECT 1", []))[0][0] == 1

    database.with_pool(work, size=1, max_wait_s=20)
    assert database.rows() == []


def test_a_search_ends_its_reads_at_its_deadline(database: Database) -> None:
    async def work(pool: Pool) -> None:
        db.deadline.set(time.monotonic() + 0.3)
        for statement in ("SELECT pg_sleep(5)", "INSERT INTO pool_test VALUES (1, 'x')"):
            with pytest.raises(OutOfTime):  # which says nothing about the server
                await pool.fetch(statement, [])

    database.with_pool(work)
    assert database.rows() == []


def test_a_commit_that_was_sent_may_end_after_the_deadline(database: Database) -> None:
    """If it were given up, whether it is late would not be known."""
    statement = "INSERT INTO pool_test SELECT 1, 'x' FROM pg_sleep(1)"

    async def work(pool: Pool) -> None:
        db.deadline.set(time.monotonic() + 0.5)
        await pool.fetch(statement, [], before=lambda: None)

    database.with_pool(work)
    assert database.rows() == [1]


def test_a_silent_server_is_given_up_in_time(database: Database) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:

        async def work(pool: Pool) -> float:
            began = time.monotonic()
            with pytest.raises(NotSent):
                await pool.fetch("SELECT 1", [])
            return time.monotonic() - began

        assert database.with_pool(work, max_wait_s=0.3, port=silent.getsockname()[1]) < 10


def test_deadline_that_ends_a_connect_is_no_server_failure(database: Database) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:

        async def work(pool: Pool) -> list[bool]:
            kinds = []
            for left_s in (60, 0.1):
                db.deadline.set(time.monotonic() + left_s)
                with pytest.raises(NotSent) as raised:
                    await pool.fetch("SELECT 1", [])
                kinds.append(isinstance(raised.value, OutOfTime))
            return kinds

        port = silent.getsockname()[1]
        assert database.with_pool(work, max_wait_s=0.3, port=port) == [False, True]


# --- Broken connections ----------------------------------------------------------------------------------------------


def test_connections_closed_while_idle_are_replaced(database: Database) -> None:
    async def work(pool: Pool) -> list[int]:
        await loop.run_in_thread(database.end_all)
        return [(await pool.fetch("SELECT %s::int", [number]))[0][0] for number in range(30)]

    assert database.with_pool(work, size=8) == list(range(30))


def test_a_connection_that_breaks_meanwhile_is_lost(database: Database) -> None:
    async def work(pool: Pool) -> None:
        running = asyncio.create_task(pool.fetch("SELECT pg_sleep(60)", []))
        await asyncio.sleep(0.1)
        await loop.run_in_thread(database.end_all)
        with pytest.raises(ConnectionLost):
            await running
        assert (await pool.fetch("SELECT 1", []))[0][0] == 1

    database.with_pool(work)


def test_a_server_that_is_down_at_start_is_used_later(postgres_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(postgres_server.url, monkeypatch)
    postgres_server.stop()

    async def work(pool: Pool) -> int:
        with pytest.raises(NotSent):
            await pool.fetch("SELECT 1", [])
        await loop.run_in_thread(postgres_server.start)
        return int((await pool.fetch("SELECT 7", []))[0][0])

    assert database.with_pool(work) == 7


def test_a_pool_grows_to_its_size_and_no_further(database: Database) -> None:
    async def work(pool: Pool) -> tuple[int, Any]:
        await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.01)", []) for _ in range(50)))
        return await loop.run_in_thread(database.backends), pool.sizes()

    assert database.with_pool(work, size=3) == (3, (3, 3, 3))


def test_a_pool_shares_the_connections_that_its_role_may_have(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("CREATE ROLE pool_test_limited LOGIN PASSWORD 'limited' CONNECTION LIMIT 2")

        async def work(pool: Pool) -> tuple[int, ...]:
            await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.01)", []) for _ in range(50)))
            return pool.sizes()

        try:
            assert database.with_pool(work, size=4, user="pool_test_limited", password="limited") == (2, 2, 4)
        finally:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'pool_test_limited'"
            )
            connection.execute("DROP ROLE pool_test_limited")


# --- Connections to the wrong server ---------------------------------------------------------------------------------


def demote(database: Database, *, demoted: bool) -> None:
    """For new connections only, so that it stands for the server to which a name leads when they are made."""
    with database.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        name, state = database.parameters["dbname"], "on" if demoted else "off"
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {state}')


WRITE = "INSERT INTO pool_test VALUES (%s, 'x')"


def test_one_refused_write_replaces_all_connections(database: Database) -> None:
    demote(database, demoted=True)

    async def work(pool: Pool) -> tuple[int, Any]:
        busy = asyncio.create_task(pool.fetch("SELECT 1 FROM pg_sleep(0.5)", []))
        await asyncio.sleep(0)  # it has its connection
        demote(database, demoted=False)
        with pytest.raises(DatabaseError) as raised:
            await pool.fetch(WRITE, [0])
        assert not isinstance(raised.value, ConnectionLost)  # it is certain that it was not executed
        await busy
        await asyncio.gather(*(pool.fetch(WRITE, [number]) for number in range(1, 20)))
        return await loop.run_in_thread(database.backends), pool.sizes()

    assert database.with_pool(work, size=3) == (3, (3, 3, 3))
    assert database.rows() == list(range(1, 20))


@pytest.mark.parametrize(
    ("spoil", "statement"),
    [
        ("ALTER DATABASE {} SET search_path = other", "SELECT name FROM moved"),
        ("DISCARD ALL", "SELECT id FROM other.moved"),
    ],
    ids=["search path", "prepared statements"],
)
def test_stale_session_is_replaced(database: Database, spoil: str, statement: str) -> None:
    """The session does not know a search path that was set later, or its prepared statements are gone."""
    with database.connect() as connection:
        connection.execute("CREATE SCHEMA other; CREATE TABLE other.moved (id int, name text)")

    async def work(pool: Pool) -> Any:
        await pool.fetch("SELECT id FROM other.moved", [])
        await pool.fetch(spoil.format(f'"{database.parameters["dbname"]}"'), [])
        with pytest.raises(DatabaseError):
            await pool.fetch(statement, [])
        return await pool.fetch(statement, [])

    assert database.with_pool(work, size=1) == []


def test_page_leaves_a_server_that_accepts_no_writes(
    database: Database, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.url)
    parsed = Environment().database("DATABASE_URL")
    page = ConnectionHandler({"default": databases.postgresql(parsed, serving=True, prepare=True)})["default"]
    demote(database, demoted=True)
    with django_db_blocker.unblock(), closing(page):
        with page.cursor() as cursor:
            cursor.execute("SELECT name FROM pool_test")
        demote(database, demoted=False)
        page.close_if_unusable_or_obsolete()  # as at the start of a request
        with page.cursor() as cursor:
            cursor.execute(WRITE, [5])
    assert database.rows() == [5]


@pytest.mark.parametrize("atomic", [False, True])
def test_a_page_waits_for_no_locked_row_in_its_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch, settings: Any, django_db_blocker: Any, atomic: bool
) -> None:
    """There `statement_timeout` would not end it, and it would pass for a commit that does not complete."""
    settings.SERVING, settings.DB_STATEMENT_TIMEOUT_MS = True, 300
    monkeypatch.setattr(commits, "process_commits", process_commits := commits.CommitBreaker())
    monkeypatch.setenv("DATABASE_URL", database.url)
    parsed = Environment().database("DATABASE_URL")
    page = ConnectionHandler({"default": databases.postgresql(parsed, serving=True, prepare=True)})["default"]
    monkeypatch.setattr(transaction, "get_connection", lambda using=None: page)
    with database.connect() as connection:
        connection.execute("CREATE TABLE child (parent bigint REFERENCES pool_test DEFERRABLE INITIALLY DEFERRED)")
        connection.execute("INSERT INTO pool_test VALUES (1, 'x')")
    with django_db_blocker.unblock(), closing(page), psycopg.connect(database.url) as other:
        other.execute("SELECT id FROM pool_test FOR UPDATE")
        with (
            pytest.raises(OperationalError, match="statement timeout"),
            transaction.atomic() if atomic else nullcontext(),
            page.cursor() as cursor,
        ):
            cursor.execute("INSERT INTO child VALUES (1)")
        other.rollback()
        with page.cursor() as cursor:
            cursor.execute("INSERT INTO child VALUES (1)")
        assert not page.in_atomic_block
        assert other.execute("SELECT count(*) FROM child").fetchone() == (1,)
    assert not process_commits.are_suspended


def test_a_process_that_began_later_is_not_the_late_one(
    database: Database, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any, settings: Any
) -> None:
    """Its id is used again: after a restart, or by another server."""
    monkeypatch.setattr(commits, "process_commits", process_commits := commits.CommitBreaker())
    monkeypatch.setenv("DATABASE_URL", database.url)
    parsed = Environment().database("DATABASE_URL")
    page = ConnectionHandler({"default": databases.postgresql(parsed, serving=True, prepare=True)})["default"]
    monkeypatch.setattr(db, "connection", page)
    with django_db_blocker.unblock(), closing(page), database.connect() as earlier:
        process_commits.late(earlier.info.backend_pid)
        assert replication.commit_problem() == commits.LATE_COMMIT
        with database.connect() as later:
            process_commits.late_processes = (later.info.backend_pid,)
            assert replication.commit_problem() is None


# --- Several hosts ---------------------------------------------------------------------------------------------------


def hosts(database: Database, *ports: int) -> dict[str, Any]:
    listed = [*map(str, ports), str(database.parameters.get("port", 5432))]
    host = str(database.parameters["host"])
    return {"host": ",".join([host] * len(listed)), "port": ",".join(listed)}


def test_the_first_host_that_answers_is_used_and_remembered(database: Database) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        named = hosts(database, silent.getsockname()[1], 1)

        async def work(pool: Pool) -> list[str]:
            assert (await pool.fetch("SELECT 1", []))[0][0] == 1
            return [str(host["port"]) for host in pool._hosts]

        assert database.with_pool(work, **named) == [named["port"].split(",")[index] for index in (2, 0, 1)]


def test_a_host_that_may_not_write_is_passed_over(database: Database) -> None:
    named = hosts(database, int(str(database.parameters["port"])))

    async def work(pool: Pool) -> Any:
        return await pool.fetch("INSERT INTO pool_test VALUES (1, 'x') RETURNING id", [])

    assert database.with_pool(work, **named, target_session_attrs="read-write")
    with database.connect() as connection:
        name = database.parameters["dbname"]
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with pytest.raises(NotSent):
        database.with_pool(work, **named, max_wait_s=2, target_session_attrs="read-write")


@pytest.mark.slow
def test_a_standby_is_passed_over_for_the_primary(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.DB_STATEMENT_TIMEOUT_MS = 0
    with required():
        pair = PostgresPair().start(synchronous=False)
    with closing(pair):
        database = Database(pair.primary.url, monkeypatch)
        ports = f"{pair.standby.port},{pair.primary.port}"
        named: dict[str, Any] = {"host": "127.0.0.1,127.0.0.1", "port": ports, "target_session_attrs": "read-write"}
        rows = database.with_pool(lambda pool: pool.fetch("SELECT pg_is_in_recovery()", []), **named)
        assert rows[0][0] is False


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({"host": "a,b", "port": "1,2"}, [("a", 1), ("b", 2)]),
        ({"host": "a,b", "port": "7"}, [("a", 7), ("b", 7)]),
        ({"host": "a,b"}, [("a", 5432), ("b", 5432)]),
        ({"host": "/run/postgresql"}, [("/run/postgresql", 5432)]),
        ({"host": "::1", "port": 5433}, [("::1", 5433)]),
    ],
)
def test_hosts_and_ports_are_paired_as_libpq_does(parameters: dict[str, Any], options: list[tuple[str, int]]) -> None:
    found = pools.targets({**parameters, "dbname": "x", "user": "u", "prepare_threshold": None})
    assert [(each["host"], each["port"]) for each in found] == options
