"""What only the Python client has: threads, forks, its own errors."""

import asyncio
import gc
import inspect
import logging
import multiprocessing
import os
import pickle
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import trustme

import callerid_client
from callerid_client import AsyncClient, CallerIdError, Client
from tests import upstream
from tests.clients.drivers import frames_below
from tests.examples.cases import NUMBER, OK, Script
from tests.upstream import Conversation, Upstream

pytestmark = pytest.mark.once

TOKEN = "a.b.c"


@pytest.mark.parametrize(
    "base_url",
    [
        *("", "callerid.example.org", "ftp://example.org", "https://", "https://a:b@example.org"),
        *("https://example.org?a=b", "https://example.org#a", "https://example.org:99999", "https://exa mple.org"),
    ],
)
def test_invalid_base_url_is_refused(base_url: str) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(ValueError, match="base_url must be like"):
            client(base_url, TOKEN)


@pytest.mark.parametrize(
    "options",
    [{"attempts": 0}, {"attempt_timeout_s": 0}, {"total_timeout_s": float("inf")}]
    + [{"token": token} for token in ("", "\n", b"a.b.c", "a.b.c\nd.e.f", "Bearer a.b.c", '"a.b.c"', "a.b.\u0441")],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        Client(**{"base_url": "https://example.org", "token": TOKEN, **options})


@pytest.mark.parametrize(
    "options",
    [{"idempotency_key": key} for key in ("", "a b", "a\r\nb", "é", "x" * 256)]
    + [{"request_id": name} for name in ("", "a b", "a\n", "x" * 65)],
)
def test_invalid_headers_are_refused(options: dict[str, str]) -> None:
    with Client("http://127.0.0.1:1", TOKEN) as client, pytest.raises(ValueError, match="must be 1 to"):
        client.search(NUMBER, **options)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"base_url": "example.org"}, {}),
        ({"attempts": 0}, {}),
        ({}, {"idempotency_key": ""}),
        ({}, {"request_id": ""}),
        ({}, {"number": b"12125550142"}),
    ],
)
def test_no_frame_of_an_invalid_argument_has_the_token(options: dict[str, Any], arguments: dict[str, Any]) -> None:
    token = "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"
    options = {"base_url": "http://127.0.0.1:1", "token": token, **options}
    with pytest.raises((ValueError, TypeError)) as caught, Client(**options) as client:
        client.search(**{"number": NUMBER, **arguments})
    frames = frames_below(caught.value)
    assert "_client.py" in frames
    assert token not in frames


def test_defaults_wait_for_a_restart(vendor: Callable[..., Upstream]) -> None:
    server = vendor(Script([upstream.resets] * 4 + [OK]))
    with Client(server.url, TOKEN, total_timeout_s=60) as client:
        assert client.search(NUMBER).credits_remaining == 9


def test_results_are_hashable(vendor: Callable[..., Upstream]) -> None:
    with Client(vendor(OK).url, TOKEN) as client:
        assert len({client.search(NUMBER), client.search(NUMBER)}) == 1


def test_threads_share_connections(vendor: Callable[..., Upstream]) -> None:
    server = vendor(OK)
    with Client(server.url, TOKEN) as client:
        for _ in range(3):
            client.search(NUMBER)
        assert server.connections == 1
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(client.search, [NUMBER] * 20))
        assert len(results) == 20
        assert server.connections <= 4


def test_async_searches_share_connections(vendor: Callable[..., Upstream]) -> None:
    server = vendor(OK)

    async def search() -> None:
        async with AsyncClient(server.url, TOKEN) as client:
            for _ in range(3):
                await client.search(NUMBER)
        with pytest.raises(RuntimeError, match="closed"):
            await client.search(NUMBER)

    asyncio.run(search())
    assert server.connections == 1


def test_async_client_refuses_another_loop(vendor: Callable[..., Upstream]) -> None:
    """Its connections would fail there, but not each time (https://github.com/encode/httpx/issues/2473)."""
    client = AsyncClient(vendor(upstream.raw(b"", 400, "Connection: close\r\n")).url, TOKEN)

    async def search() -> None:
        with pytest.raises(CallerIdError):
            await client.search(NUMBER)

    asyncio.run(search())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="make one for each loop"):
            asyncio.run(search())


def test_cancelled_async_search_ends_at_once(vendor: Callable[..., Upstream]) -> None:
    arrived = threading.Event()

    def hangs(conversation: Conversation) -> bool:
        arrived.set()
        return upstream.hangs(conversation)

    async def search(url: str) -> None:
        async with AsyncClient(url, TOKEN, attempt_timeout_s=60, total_timeout_s=60) as client:
            task = asyncio.create_task(client.search(NUMBER))
            await asyncio.to_thread(arrived.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(search(vendor(hangs).url))


def test_close_ends_a_search_in_progress(vendor: Callable[..., Upstream]) -> None:
    arrived = threading.Event()

    def hangs(conversation: Conversation) -> bool:
        arrived.set()
        return upstream.hangs(conversation)

    client = Client(vendor(hangs).url, TOKEN, attempt_timeout_s=60, total_timeout_s=60)
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(client.search, NUMBER)
        arrived.wait()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            search.result()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.search(NUMBER)


def test_close_ends_a_search_that_is_just_being_sent(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(vendor(upstream.hangs).url, TOKEN, attempt_timeout_s=60, total_timeout_s=60)
    schedule = asyncio.run_coroutine_threadsafe
    closing = threading.Thread(target=client.close)

    def schedule_during_close(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", schedule)
        closing.start()
        for thread in threading.enumerate():
            if thread.name == "callerid-client":
                thread.join(0.5)  # it ends only if `close` does not wait for this search
        return schedule(coroutine, loop)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", schedule_during_close)
    with pytest.raises(RuntimeError, match="The client has been closed"):
        client.search(NUMBER)
    closing.join()


def test_close_lets_a_search_that_connects_clean_up(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(vendor(upstream.hangs).url, TOKEN, attempt_timeout_s=60, total_timeout_s=60)
    closing, both = threading.Thread(target=client.close), threading.Event()
    new_event_loop, schedule = asyncio.new_event_loop, asyncio.run_coroutine_threadsafe

    def starts_when_both_are_scheduled() -> asyncio.AbstractEventLoop:
        loop = new_event_loop()
        loop.call_soon(both.wait)
        return loop

    def schedule_search_and_close(coroutine: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Future[Any]:
        future = schedule(coroutine, loop)
        if closing.ident:
            both.set()
        else:
            closing.start()
        return future

    monkeypatch.setattr(asyncio, "new_event_loop", starts_when_both_are_scheduled)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", schedule_search_and_close)
    with pytest.raises(RuntimeError, match="The client has been closed"):
        client.search(NUMBER)
    closing.join()
    gc.collect()  # warns of a connection attempt that was never awaited, which fails the test


def test_client_that_is_not_closed_ends_its_thread(vendor: Callable[..., Upstream]) -> None:
    client = Client(vendor(upstream.raw(b"", 400, "Connection: close\r\n")).url, TOKEN)
    before = set(threading.enumerate())  # with those of clients that other tests have just closed
    with pytest.raises(CallerIdError):
        client.search(NUMBER)
    (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "callerid-client"]
    del client
    gc.collect()  # the error's traceback
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_client_searches_after_a_fork(vendor: Callable[..., Upstream]) -> None:
    server = vendor(OK)
    context = multiprocessing.get_context("fork")
    with Client(server.url, TOKEN) as client:
        client.search(NUMBER)
        process = context.Process(target=lambda: os._exit(client.search(NUMBER).credits_remaining))
        process.start()
        process.join(60)
        assert process.exitcode == 9
        client.search(NUMBER)
    assert server.connections == 2


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_another_client_starts_its_thread(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    starting, forked = threading.Event(), threading.Event()
    new_event_loop, parent = asyncio.new_event_loop, os.getpid()

    def starts_during_fork() -> asyncio.AbstractEventLoop:
        if os.getpid() == parent:
            starting.set()
            forked.wait()
        return new_event_loop()

    monkeypatch.setattr(asyncio, "new_event_loop", starts_during_fork)
    url = vendor(OK).url
    with Client(url, TOKEN) as client, Client(url, TOKEN) as other, ThreadPoolExecutor(1) as pool:
        search = pool.submit(other.search, NUMBER)
        starting.wait()
        process = multiprocessing.get_context("fork").Process(
            target=lambda: os._exit(client.search(NUMBER).credits_remaining), daemon=True
        )
        process.start()
        forked.set()
        process.join(30)
        assert process.exitcode == 9
        assert search.result().credits_remaining == 9


def test_own_certificate_authority(vendor: Callable[..., Upstream]) -> None:
    authority = trustme.CA()
    tls, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(trusting)
    url = vendor(OK, tls).url
    with Client(url, TOKEN, ssl_context=trusting) as client:
        assert client.search(NUMBER).credits_remaining == 9
    with Client(url, TOKEN, attempts=1) as client, pytest.raises(callerid_client.Unreachable):
        client.search(NUMBER)


@pytest.mark.parametrize(
    "cls",
    [cls for cls in vars(callerid_client).values() if inspect.isclass(cls) and issubclass(cls, CallerIdError)],
)
def test_errors_can_be_pickled(cls: type[CallerIdError]) -> None:
    error = pickle.loads(pickle.dumps(cls("No credits remaining", 403, "request-1", 1)))
    assert (type(error), vars(error)) == (cls, vars(cls("No credits remaining", 403, "request-1", 1)))
    assert str(error) == "403 No credits remaining (request request-1)"


def test_log_has_neither_token_nor_number(vendor: Callable[..., Upstream], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), Client(vendor(OK).url, "eyJhbGciOiJIUzI1NiJ9.e30.c2ln") as client:
        client.search(NUMBER)
    assert "/callerid/search" in caplog.text
    assert NUMBER not in caplog.text
    assert "eyJhbGci" not in caplog.text
