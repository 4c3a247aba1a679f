"""Pages run in a few threads beside the event loop, which no client holds: one that hangs, or is not read, delays no
search, no other page and no end of the process."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
import uvicorn
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from callerid_project import http_protocol, page_handler, serve
from callerid_project.http_protocol import LimitedProtocol
from callerid_project.page_handler import MAX_PAGES, PAGE_THREADS, PageHandler
from tests.accounts.admin.test_ledger_export import download
from tests.accounts.admin.test_ledger_export import service as with_a_long_ledger
from tests.api import NUMBER
from tests.load import create_tokens, wait_for
from tests.metrics import here, scrape
from tests.raw_http import Connection, request
from tests.service import Service

pytestmark = pytest.mark.once

service = with_a_long_ledger
SEARCHES = 10
LARGE_FILE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"


def search_often(service: Service, key: str) -> None:
    """All are answered, over one connection."""
    body = json.dumps({"api_key": key, "query": NUMBER}).encode()
    with Connection(service.port) as connection:
        for _ in range(SEARCHES):
            assert connection.send(request("/callerid/search", body)).read().status == 200
        for path in ("/livez", "/readyz", "/metrics"):
            assert connection.send(request(path)).read().status == 200


def unread(service: Service, path: str) -> socket.socket:
    """A connection with a small window that has sent requests for `path`, and reads nothing."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.connect(("127.0.0.1", service.port))
    peer.sendall(request(path) * 4)
    return peer


@pytest.mark.slow
def test_responses_that_nobody_reads_hold_no_thread(service: Service) -> None:
    (key,) = create_tokens(service, 1)
    with ExitStack() as opened:
        exports = [opened.enter_context(download(service)) for _ in range(PAGE_THREADS + 1)]
        for export in exports:
            assert export.read(100).startswith(b"\xef\xbb\xbfrow,time,")
        for _ in range(MAX_PAGES + 1):
            opened.enter_context(unread(service, LARGE_FILE))
        for path in ("/docs", "/schema", "/admin/login/", LARGE_FILE):
            assert requests.get(service.url + path, timeout=30).status_code == 200
        search_often(service, key)
        assert service.stop() == 0


@pytest.mark.slow
def test_a_client_may_send_its_next_request_at_once(service: Service) -> None:
    """When it has the last byte: not all requests of one connection are pipelined that look so."""
    with Connection(service.port) as connection:
        for _ in range(50):
            for path in ("/static/callerid/home.js", "/static/callerid/home.css", "/admin/login/", "/livez"):
                assert connection.send(request(path)).read().status == 200


@pytest.mark.slow
def test_clients_that_leave_hold_no_thread(service: Service) -> None:
    for _ in range(4):
        for _ in range(PAGE_THREADS + 1):
            unread(service, LARGE_FILE).close()
        assert requests.get(f"{service.url}/docs", timeout=30).status_code == 200
    for gauge in ("waiting", "longest_wait_seconds"):  # sampled every 5 s
        wait_for(lambda gauge=gauge: scrape(service.url).of(f"callerid_pages_{gauge}") == 0)  # type: ignore[misc]


@pytest.mark.parametrize("reads", [False, True], ids=["reads nothing", "reads little"])
def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    """By the kernel if it reads nothing, otherwise by the server."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        ended.set()

    async def check() -> None:
        config = uvicorn.Config(application, http=LimitedProtocol, lifespan="off", log_config=None, loop="uvloop")
        server, bound = uvicorn.Server(config), serve.bind("127.0.0.1", 0)
        running = asyncio.ensure_future(server.serve(sockets=[bound]))
        await until(lambda: server.started)
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.getsockname()[1], limit=1)
        writer.write(request("/"))
        while not ended.is_set():
            if reads:
                await reader.read(1)
            await asyncio.sleep(0.05)
        writer.close()
        server.should_exit = True
        await running

    ended = asyncio.Event()
    monkeypatch.setattr(serve, "UNREAD_TIMEOUT_S", 30 if reads else 1)
    monkeypatch.setattr(http_protocol, "WRITE_TIMEOUT_S", 1.0 if reads else 30.0)
    run(check())


# --- The handler itself --------------------------------------------------------------------------------------------


class Client:
    """What an ASGI server passes to the application."""

    def __init__(self, *, method: str = "GET") -> None:
        self.scope = {"type": "http", "method": method}
        self.request = HttpRequest()
        self.request.method = method
        self.left = asyncio.Event()
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Pages(PageHandler):
    """Each page is computed when `free` is set. `page`: makes the response."""

    def __init__(self, page: Callable[[], HttpResponse | StreamingHttpResponse] = HttpResponse) -> None:
        super().__init__()
        self.page, self.free, self.computed = page, threading.Event(), 0

    def get_response(self, request: HttpRequest) -> Any:
        assert self.free.wait(30)
        self.computed += 1
        return self.page()

    def open(self, client: Client) -> "asyncio.Future[bool]":
        return asyncio.ensure_future(self.respond(client.request, client.scope, client.receive, client.send))


def run(check: Any) -> None:
    asyncio.run(asyncio.wait_for(check, 60))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_pages_wait_for_a_thread_up_to_a_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        pages, clients = Pages(), [Client() for _ in range(MAX_PAGES)]
        opened = [pages.open(client) for client in clients]
        await until(lambda: pages.is_full)
        pages.sample()
        assert here().of("callerid_pages_computing") == PAGE_THREADS
        assert here().of("callerid_pages_waiting") == MAX_PAGES - PAGE_THREADS
        pages.free.set()
        await asyncio.gather(*opened)
        assert not pages.is_full
        assert [client.sent[0]["status"] for client in clients] == [200] * MAX_PAGES

    run(check())


def test_a_page_whose_client_has_left_is_not_computed() -> None:
    async def check() -> None:
        pages, clients = Pages(), [Client() for _ in range(PAGE_THREADS + 20)]
        opened = [pages.open(client) for client in clients]
        await until(lambda: pages.longest_wait_s > 0)
        for client in clients[PAGE_THREADS:]:
            client.left.set()
        pages.free.set()
        await asyncio.gather(*opened)
        assert pages.computed == PAGE_THREADS

    run(check())


def test_pages_that_are_not_answered_are_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        pages = Pages()
        opened = [pages.open(Client()) for _ in range(PAGE_THREADS + 1)]
        await until(lambda: pages.longest_wait_s > 0)
        assert pages.problem() is None
        monkeypatch.setattr(page_handler, "STALLED_S", 0.0)
        assert pages.problem() == "Pages are not answered: all their threads are in use"
        for _ in range(2):
            pages.sample()
        pages.free.set()
        await asyncio.gather(*opened)
        monkeypatch.setattr(page_handler, "STALLED_S", 30.0)
        assert pages.problem() is None

    run(check())
    assert [record.levelname for record in caplog.records if "pages are not answered" in record.message] == ["ERROR"]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_download_ends_with_its_client_and_is_closed(leaves: bool) -> None:
    async def check() -> None:
        client, closed, parts = Client(), threading.Event(), list[int]()

        def content() -> Iterator[bytes]:
            for n in range(100):
                if leaves and n == 50:
                    asyncio.run_coroutine_threadsafe(leave(), loop).result()
                parts.append(n)
                yield b"x" * 40_000

        async def leave() -> None:
            client.left.set()
            await asyncio.sleep(0)

        def page() -> StreamingHttpResponse:
            response = StreamingHttpResponse(content())
            response._resource_closers.append(closed.set)  # type: ignore[attr-defined]
            return response

        loop, pages = asyncio.get_running_loop(), Pages(page)
        pages.free.set()
        await pages.open(client)
        assert closed.is_set()
        assert len(parts) == (52 if leaves else 100)  # two pieces are read, of two parts each, before one is sent
        assert len(client.body) == len(parts) * 40_000
        assert client.sent[-1].get("more_body", False) is False

    run(check())


def test_pages_are_computed_beside_any_number_of_downloads() -> None:
    async def check() -> None:
        reading, finish = threading.Semaphore(0), threading.Event()

        def content() -> Iterator[bytes]:
            reading.release()
            assert finish.wait(30)
            yield b"x"

        pages, downloads = Pages(lambda: StreamingHttpResponse(content())), [Client() for _ in range(20)]
        pages.free.set()
        opened = [pages.open(client) for client in downloads]
        await until(lambda: pages.computed == 20)
        await asyncio.get_running_loop().run_in_executor(None, reading.acquire)
        page = Client()
        pages.page = HttpResponse
        assert await pages.open(page)
        assert page.sent[0]["status"] == 200
        finish.set()
        await asyncio.gather(*opened)
        assert {client.body for client in downloads} == {b"x"}

    run(check())


def test_a_page_that_a_stop_ends_has_no_response() -> None:
    async def check() -> None:
        pages, client = Pages(), Client()
        opened = pages.open(client)
        await asyncio.sleep(0)
        opened.cancel()
        assert await opened is False
        assert client.sent == []
        pages.free.set()

    run(check())


def test_head_of_a_download_reads_nothing_of_it() -> None:
    async def check() -> None:
        client, pages = Client(method="HEAD"), Pages(lambda: StreamingHttpResponse(iter([b"a"])))
        pages.free.set()
        await pages.open(client)
        assert (client.sent[0]["status"], client.body) == (200, b"")

    run(check())
