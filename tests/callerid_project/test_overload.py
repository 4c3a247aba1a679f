"""More searches than an instance runs: the others wait, are refused by age, and cost nothing."""

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from callerid_project.http_protocol import MAX_HEADER_BYTES, LimitedProtocol
from tests.api import NUMBER
from tests.load import create_tokens
from tests.metrics import scrape
from tests.raw_http import Connection, request
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: By the two functions below; of the first, one gets 431 in the end.
REFUSED_MEANWHILE = 7 + 4
OVERLOADED = (503, {"detail": "Service overloaded"}, "1")


def refusal(connection: Connection) -> tuple[int, object, str]:
    answer = connection.read()
    return answer.status, answer.json(), answer.headers["retry-after"]


def check_refusals_on_arrival(service: Service, key: str) -> None:
    """While the queue is full: the server refuses as the application would, and without it."""
    sent = request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode(), "X-Request-ID: mine")
    with Connection(service.port) as connection:
        by_server = connection.send(sent).read()
        by_application = connection.send(sent.replace(b"search HTTP", b"search?a HTTP")).read()
        assert (by_server.status, by_server.body) == (by_application.status, by_application.body)
        assert by_server.headers == {name: each for name, each in by_application.headers.items() if name != "date"}
        head, body = sent.split(b"\r\n\r\n")  # in pieces
        answer = connection.send(head[:20]).send(head[20:] + b"\r\n\r\n").send(body[:5]).send(body[5:]).read()
        assert (answer.status, "date" in answer.headers) == (503, False)
        chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
        answer = connection.send(chunked + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)).read()
        assert (answer.status, "date" in answer.headers) == (503, False)
        for line in ("X-Request-ID: 12025550123", "X-Request-ID: a b"):
            answer = connection.send(request("/callerid/search", b"{}", line)).read()
            assert re.fullmatch("[0-9a-f-]{37}", answer.headers["x-request-id"])
    with Connection(service.port) as connection:  # its body counts with the headers
        endless = request("/callerid/search", b"a" * 2 * MAX_HEADER_BYTES)
        assert connection.send(endless[: MAX_HEADER_BYTES + 1]).read().status == 431


def check_refusals_of_the_application(service: Service) -> None:
    """Of what the server leaves to it, also while the queue is full."""
    with Connection(service.port) as connection:
        assert connection.send(request("/callerid/search")).read().status == 503  # GET
        connection.send(request("/callerid/search", b"{}", "Expect: 100-continue"))
        assert connection.read_head()[0] == 100
        answer = connection.read()
        assert (answer.status, "date" in answer.headers) == (503, True)
    last = {
        "Connection: close": request("/callerid/search", b"{}", "Connection: close"),
        "HTTP/1.0": request("/callerid/search", b"{}", "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"),
    }
    for kind, sent in last.items():
        head, _, body = sent.partition(b"\r\n\r\n")
        with Connection(service.port) as connection:
            answer = connection.send(head + b"\r\n\r\n").send(body).read()
            assert (answer.status, "date" in answer.headers) == (503, True), kind
            assert connection.is_closed(), kind


def test_what_cannot_begin_in_time_is_refused_uncharged(serve: Callable[..., Service]) -> None:
    service = serve(MAX_RUNNING_SEARCHES="1", MAX_WAITING_SEARCHES="2", SEARCH_DEADLINE_S="12", SQLITE_TIMEOUT_S="60")
    (key,) = create_tokens(service, 1, credits=10)
    sent = request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode(), "Idempotency-Key: k")
    connections = [Connection(service.port) for _ in range(4)]
    running, *waiting, refused = connections
    try:
        with closing(
            sqlite3.connect(Path(service.env["CALLERID_DATA_DIR"], "callerid.sqlite3"), isolation_level=None)
        ) as database:
            database.execute("BEGIN IMMEDIATE")  # no search can charge
            for connection in (running, *waiting):
                connection.send(sent)
                assert refused.send(request("/livez")).read().status == 200  # so the other one has arrived
            assert refusal(refused.send(sent)) == OVERLOADED
            check_refusals_on_arrival(service, key)
            check_refusals_of_the_application(service)
            for connection in waiting:  # a quarter of the deadline
                assert refusal(connection) == OVERLOADED
        assert running.read().json()["credits_remaining"] == 9
        for connection in connections:  # all is as before; each retry gets the one answer
            retried = connection.send(sent).read()
            assert (retried.status, retried.headers["idempotent-replayed"]) == (200, "true")
    finally:
        for connection in connections:
            connection.sock.close()
    figures = scrape(service.url)
    assert figures.of("callerid_searches_overloaded_total") == 3 + REFUSED_MEANWHILE
    assert figures.of("callerid_credits_total", kind="search") == 1


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.sent, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("reason", ["stops", "client does not read"])
def test_a_refusal_may_be_the_last_response_of_a_connection(reason: str) -> None:
    async def check() -> None:
        config = uvicorn.Config("callerid_project.asgi:application", log_config=None)
        config.load()
        refusal = b"HTTP/1.1 503 Service Unavailable\r\n\r\nbody"
        transport = Transport()
        protocol = LimitedProtocol(config, ServerState(), {"overload_response": lambda *_: refusal})
        protocol.connection_made(transport)
        sent = request("/callerid/search", b"{}")
        protocol.data_received(sent)
        assert (transport.sent, transport.closed) == (refusal, False)
        protocol.data_received(sent[:-1])
        protocol.shutdown() if reason == "stops" else protocol.pause_writing()
        assert not transport.closed
        protocol.data_received(sent[-1:])
        last = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\nbody"
        assert (transport.sent, transport.closed) == (refusal + last, True)
        protocol.connection_lost(None)

    asyncio.run(check())


def test_only_the_first_of_several_in_the_same_data_is_refused() -> None:
    """Or one read of a busy process could refuse thousands."""

    async def check() -> None:
        refusal = b"HTTP/1.1 503 Service Unavailable\r\n\r\nbody"
        config = uvicorn.Config("callerid_project.asgi:application", log_config=None)
        config.load()
        protocol, transport = (
            LimitedProtocol(config, ServerState(), {"overload_response": lambda *_: refusal}),
            Transport(),
        )
        protocol.connection_made(transport)
        protocol.data_received(request("/callerid/search", b"{}") * 3)
        assert (transport.sent, transport.closed) == (refusal, True)
        protocol.connection_lost(None)

    asyncio.run(check())
