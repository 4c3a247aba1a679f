"""The event loop of a process: results, exceptions, context, and whose database connection is used."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from django.db import connection, transaction

from core import db, loop
from tests.lookup.vendors.searches import until

variable: ContextVar[str] = ContextVar("variable", default="nobody's")


async def thread_name() -> str:
    return threading.current_thread().name


def test_coroutines_of_all_threads_run_on_one_loop() -> None:
    async def running() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with ThreadPoolExecutor(4) as callers:
        loops = list(callers.map(lambda _: loop.run(running()), range(8)))
    assert set(loops) == {loop.run(running())}
    assert loop.run(thread_name()) == "event-loop"


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, TimeoutError, StopAsyncIteration])
def test_an_exception_reaches_the_caller(error: type[BaseException]) -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    with pytest.raises(error):
        loop.run(fail())
    assert loop.run(thread_name()) == "event-loop"


def test_a_coroutine_has_a_copy_of_the_callers_context() -> None:
    async def read_and_set() -> list[str]:
        found = [variable.get(), await loop.run_in_thread(variable.get), await loop.run_with_connection(variable.get)]
        variable.set("the coroutine's")
        return found

    reset = variable.set("the caller's")
    try:
        assert loop.run(read_and_set()) == ["the caller's"] * 3
        assert variable.get() == "the caller's"
    finally:
        variable.reset(reset)


def test_a_function_in_a_thread_does_not_hold_up_the_loop() -> None:
    go_on = threading.Event()

    async def start() -> list[Any]:
        blocked = asyncio.ensure_future(loop.run_in_thread(lambda: go_on.wait(20)))
        others = [await loop.run_in_thread(lambda: 7) for _ in range(3)]
        waited = blocked.done()
        go_on.set()
        return [others, waited, await blocked]

    assert loop.run(start()) == [[7, 7, 7], False, True]


def test_idle_threads_are_used_again() -> None:
    threads, used = loop.DaemonThreads(), set[int]()
    for _ in range(20):
        used.add(threads.submit(threading.get_ident).result(20))
        until(lambda: threads._idle._value)  # a moment after its result is there
    assert len(used) == 1


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_what_a_function_raises_in_a_thread_is_raised(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    async def call() -> str:
        try:
            await loop.run_in_thread(fail)
        except BaseException as raised:
            return type(raised).__name__
        return ""

    assert loop.run(call()) == error.__name__
    assert loop.run(loop.run_in_thread(lambda: 7)) == 7


def test_a_loop_that_cannot_start_fails_its_caller_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_loop", None)
        patch.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            loop.run(thread_name())
    assert loop.run(thread_name()) == "event-loop"


def test_an_unhandled_error_is_logged_by_its_type_only(caplog: pytest.LogCaptureFixture) -> None:
    async def schedule() -> None:
        def fail() -> None:
            raise ValueError("secret")

        asyncio.get_running_loop().call_soon(fail)

    loop.run(schedule())
    until(lambda: "event loop: ValueError" in caplog.messages)
    assert "secret" not in caplog.text


# --- Django's connection ---------------------------------------------------------------------------------------------


@pytest.fixture
def table(transactional_db: None) -> Iterator[None]:
    db.run("CREATE TABLE loop_test (id bigint PRIMARY KEY)", [])
    yield
    db.run("DROP TABLE loop_test", [])


def rows() -> list[Any]:
    return db.fetch("SELECT id FROM loop_test ORDER BY id", [])


def test_statements_are_part_of_the_callers_transaction(table: None) -> None:
    async def insert() -> Any:
        await db.afetch("INSERT INTO loop_test VALUES (%s)", [1])
        return await db.afetch_one("SELECT count(*) FROM loop_test")

    with transaction.atomic():
        assert loop.run(insert()) == (1,)
        transaction.set_rollback(True)
    assert rows() == []
    assert loop.run(insert()) == (1,)
    assert rows() == [(1,)]


def test_statements_at_once_take_turns_on_the_callers_connection(table: None) -> None:
    async def insert(number: int) -> int:
        await db.afetch("INSERT INTO loop_test VALUES (%s)", [number])
        return await loop.run_with_connection(threading.get_ident)

    async def at_once() -> list[int]:
        return await asyncio.gather(*(insert(number) for number in range(20)))

    with transaction.atomic():
        assert set(loop.run(at_once())) == {threading.get_ident()}
    assert rows() == [(number,) for number in range(20)]


def serving(function: Any) -> Any:
    """The result of `function` by run_with_connection, as in a process that serves: nobody waits in `run`."""
    return asyncio.run_coroutine_threadsafe(loop.run_with_connection(function), loop._get()).result(20)


def close() -> None:
    connection.close()  # this thread's


@pytest.fixture
def threads_of_serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with ThreadPoolExecutor(1) as executor:
        monkeypatch.setattr(loop, "_with_connection", executor)
        yield
        executor.submit(close).result(20)


def test_without_a_waiting_caller_threads_keep_connections(table: None, threads_of_serving: None) -> None:
    def raw() -> int:
        connection.ensure_connection()
        return id(connection.connection)

    assert serving(threading.get_ident) != threading.get_ident()
    assert len({serving(raw) for _ in range(5)}) == 1
    serving(lambda: db.run("INSERT INTO loop_test VALUES (%s)", [5]))
    assert rows() == [(5,)]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no server")
def test_a_thread_replaces_a_connection_that_the_server_closed(table: None, threads_of_serving: None) -> None:
    (backend,) = serving(lambda: db.fetch_one("SELECT pg_backend_pid()", []))
    db.fetch_one("SELECT pg_terminate_backend(%s, 10000)", [backend])

    def succeeds() -> bool:
        try:
            return bool(serving(lambda: db.fetch_one("SELECT 1", [])) == (1,))
        except Exception:
            return False

    assert [succeeds() for _ in range(3)][1:] == [True, True]
