"""More searches than an instance runs: the others wait, are refused by age, and cost nothing."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from callerid_project.http_protocol import MAX_HEADER_BYTES
from tests.api import NUMBER
from tests.load import create_tokens
from tests.metrics import scrape
from tests.raw_http import Connection, request
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: By check_refusals_on_arrival.
REFUSED_ON_ARRIVAL = 11
OVERLOADED = (503, {"detail": "Service overloaded"}, "1")


def refusal(connection: Connection) -> tuple[int, object, str]:
    answer = connection.read()
    return answer.status, answer.json(), answer.headers["retry-after"]


def check_refusals_on_arrival(service: Service, key: str) -> None:
    """While the queue is full: the server refuses what it can, the application the rest, alike."""
    sent = request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode(), "X-Request-ID: mine")
    with Connection(service.port) as connection:
        by_server = connection.send(sent).read()
        by_application = connection.send(sent.replace(b"search HTTP", b"search?a HTTP")).read()
        assert (by_server.status, by_server.body) == (by_application.status, by_application.body)
        assert by_server.headers == {name: each for name, each in by_application.headers.items() if name != "date"}
        # In pieces, pipelined, and in chunks.
        head, body = sent.split(b"\r\n\r\n")
        connection.send(head[:20]).send(head[20:] + b"\r\n\r\n").send(body[:5])
        connection.send(body[5:] + sent + request("/livez") + sent)
        assert [connection.read().status for _ in range(4)] == [503, 503, 200, 503]
        chunked = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
        connection.send(chunked + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        assert refusal(connection) == OVERLOADED
        assert connection.send(request("/callerid/search")).read().status == 503  # GET
        for line in ("X-Request-ID: 12025550123", "X-Request-ID: a b"):
            answer = connection.send(request("/callerid/search", b"{}", line)).read()
            assert re.fullmatch("[0-9a-f-]{37}", answer.headers["x-request-id"])
        assert refusal(connection.send(request("/callerid/search", b"{}", "Connection: close"))) == OVERLOADED
        assert connection.is_closed()
    with Connection(service.port) as connection:  # its body counts with the headers
        endless = request("/callerid/search", b"a" * 2 * MAX_HEADER_BYTES)
        assert connection.send(endless[: MAX_HEADER_BYTES + 1]).read().status == 431


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
    assert figures.of("callerid_searches_overloaded_total") == 3 + REFUSED_ON_ARRIVAL
    assert figures.of("callerid_credits_total", kind="search") == 1
