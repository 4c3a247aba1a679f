"""More searches than an instance runs: the others wait, are refused by age, and cost nothing."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.api import NUMBER
from tests.load import create_tokens
from tests.metrics import scrape
from tests.raw_http import Connection, request
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

OVERLOADED = (503, {"detail": "Service overloaded"}, "1")


def refusal(connection: Connection) -> tuple[int, object, str]:
    answer = connection.read()
    return answer.status, answer.json(), answer.headers["retry-after"]


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
    assert figures.of("callerid_searches_overloaded_total") == 3
    assert figures.of("callerid_credits_total", kind="search") == 1
