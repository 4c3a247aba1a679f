"""Pages run in a few threads beside the event loop: one that hangs delays no search, and no end of the process."""

import json
import select
from contextlib import ExitStack

import pytest

from callerid_project.asgi import MAX_PAGES, PAGE_THREADS
from tests.accounts.admin.test_ledger_export import download
from tests.accounts.admin.test_ledger_export import service as with_a_long_ledger
from tests.api import NUMBER
from tests.load import create_tokens
from tests.raw_http import Answer, Connection, request
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

service = with_a_long_ledger
SEARCHES = 10


def search_often(service: Service, key: str) -> None:
    """All are answered, over one connection."""
    body = json.dumps({"api_key": key, "query": NUMBER}).encode()
    with Connection(service.port) as connection:
        for _ in range(SEARCHES):
            assert connection.send(request("/callerid/search", body)).read().status == 200
        for path in ("/livez", "/readyz", "/metrics"):
            assert connection.send(request(path)).read().status == 200


def first_answer(connections: list[Connection]) -> Answer:
    (readable, *_), _, _ = select.select([connection.sock for connection in connections], [], [], 60)
    (connection,) = [each for each in connections if each.sock is readable]
    connections.remove(connection)
    return connection.read()


def test_pages_that_hang_delay_no_search_and_no_end(service: Service) -> None:
    """Exports whose readers have stopped reading hold every thread; other pages wait, up to a limit."""
    (key,) = create_tokens(service, 1)
    with ExitStack() as opened:
        exports = [opened.enter_context(download(service)) for _ in range(PAGE_THREADS)]
        for export in exports:
            assert export.read(100).startswith(b"row,time,")
        connections = [opened.enter_context(Connection(service.port)) for _ in range(MAX_PAGES - PAGE_THREADS + 1)]
        for connection in connections:
            connection.send(request("/schema"))
        refused = first_answer(connections)
        assert (refused.status, refused.json()) == (503, {"detail": "Service overloaded"})
        assert refused.headers["retry-after"] == "1"
        assert {"x-request-id", "content-security-policy", "x-content-type-options"} <= refused.headers.keys()
        search_often(service, key)
        assert select.select([connection.sock for connection in connections], [], [], 0)[0] == []
        while exports[0].read(2**20):
            pass
        assert {connection.read().status for connection in connections} == {200}
        search_often(service, key)
        assert service.stop() == 0
