"""More searches than an instance runs: the others wait, are refused by age, and cost nothing."""

import json
import threading
from collections.abc import Callable

import pytest

from tests import upstream
from tests.api import NUMBER
from tests.load import create_tokens
from tests.metrics import scrape
from tests.mock_vendors import KEYS, PRESETS
from tests.raw_http import Connection, request
from tests.service import Service
from tests.upstream import Upstream, held, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

OVERLOADED = (503, {"detail": "Service overloaded"}, "1")


def refusal(connection: Connection) -> tuple[int, object, str]:
    answer = connection.read()
    return answer.status, answer.json(), answer.headers["retry-after"]


def test_what_cannot_begin_in_time_is_refused_uncharged(
    serve: Callable[..., Service], vendor: Callable[..., Upstream]
) -> None:
    arrived, answer = threading.Barrier(2), threading.Event()
    source = vendor(held(answer, says(upstream.GOOD_A), arrived))
    service = serve(
        **{"PRESET_DIR": str(PRESETS), "SOURCE_A": "mock_a", "MOCK_A_BASE_URL": source.url, **KEYS},
        MAX_RUNNING_SEARCHES="1",
        MAX_WAITING_SEARCHES="2",
        SEARCH_DEADLINE_S="15",
        CALL_LIFETIME_S="60",
    )
    (key,) = create_tokens(service, 1, credits=10)
    sent = request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode(), "Idempotency-Key: k")
    connections = [Connection(service.port) for _ in range(4)]
    running, *waiting, refused = connections
    try:
        running.send(sent)
        arrived.wait(60)
        for connection in waiting:
            connection.send(sent)
        assert refusal(refused.send(sent)) == OVERLOADED
        assert refused.send(request("/livez")).read().status == 200
        for connection in waiting:  # a third of the deadline
            assert refusal(connection) == OVERLOADED
        answer.set()
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
