"""Truncated, chunked, slow and large bodies, sent over a socket: an incomplete one is never searched, never charged."""

import json
import time
from collections.abc import Callable

import pytest

from tests.api import NUMBER
from tests.raw_http import Connection, chunk, request
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

SEARCH = "/callerid/search"
MALFORMED = (400, {"detail": "Malformed JSON body"})
TOO_LARGE = (413, {"detail": "Request body too large"})
LIMIT = 16 * 1024
CHUNKED = "Transfer-Encoding: chunked"
LAST = chunk(b"")


class Shop:
    """A service, and a token of it with 10 credits."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.key = service.manage("create_token", "test", "--credits", "10", "--quiet").strip()
        self.body = json.dumps({"api_key": self.key, "query": NUMBER}).encode()

    def connect(self) -> Connection:
        return Connection(self.service.port)

    def charged(self) -> int:
        """Credits that searches have taken, once the service has finished every request: it stops."""
        assert self.service.stop() == 0
        (line,) = json.loads(self.service.manage("list_tokens", "--json"))
        return 10 - int(line["credits"])


@pytest.fixture
def shop(serve: Callable[..., Service]) -> Shop:
    """Bodies must arrive within half a second."""
    return Shop(serve(BODY_TIMEOUT_S="0.5"))


def head(*headers: str, path: str = SEARCH, content_type: str = "application/json") -> bytes:
    return request(path, b"", *headers, content_type=content_type)


def read(connection: Connection) -> tuple[int, object]:
    answer = connection.read()
    return answer.status, answer.json()


def test_a_truncated_body_is_neither_searched_nor_charged(shop: Shop) -> None:
    for line, sent in [
        ("Content-Length: 5000", shop.body),
        (f"Content-Length: {len(shop.body) + 1}", shop.body),
        (CHUNKED, chunk(shop.body)),
        (CHUNKED, chunk(shop.body)[:-2]),
        (CHUNKED, b"1388\r\n" + shop.body),
        (CHUNKED, chunk(shop.body) + b"0\r\n"),
    ]:
        with shop.connect() as connection:  # the rest does not come
            connection.send(head(line) + sent)
            assert read(connection) == MALFORMED, line
            assert connection.is_closed()
        with shop.connect() as connection:  # the client goes away
            connection.send(head(line) + sent)
    # Through a connection that has carried a search before.
    with shop.connect() as connection:
        assert connection.send(request(SEARCH, shop.body)).read().status == 200
        connection.send(head("Content-Length: 5000") + shop.body)
        assert read(connection) == MALFORMED
        assert connection.is_closed()
    assert shop.charged() == 1


def test_malformed_chunks_are_neither_searched_nor_charged(shop: Shop) -> None:
    for sent in (
        chunk(shop.body) + b"zz\r\n",
        b"-1\r\n",
        b"ffffffffffffffffff\r\n",
        chunk(shop.body)[:-2] + b"xx" + LAST,
    ):
        with shop.connect() as connection:
            connection.send(head(CHUNKED) + sent)
            assert connection.read().status == 400
            assert connection.is_closed()
    assert shop.charged() == 0


def test_a_complete_chunked_body_is_searched(shop: Shop) -> None:
    with shop.connect() as connection:
        pieces = [shop.body[at : at + 7] for at in range(0, len(shop.body), 7)]
        for sent in (
            chunk(shop.body) + LAST,
            b"".join(map(chunk, pieces)) + LAST,
            b"5;name=value\r\n" + shop.body[:5] + b"\r\n" + chunk(shop.body[5:]) + LAST,
        ):
            connection.send(head(CHUNKED) + sent)
            assert connection.read().status == 200
        connection.send(head(CHUNKED) + LAST)
        assert read(connection) == MALFORMED  # empty
        assert connection.send(request(SEARCH, shop.body)).read().status == 200
    assert shop.charged() == 4


def test_a_body_over_16_kib_is_413_however_it_is_sent(shop: Shop) -> None:
    spaces = b" " * (LIMIT - len(shop.body))
    for line, sent, status in [
        (f"Content-Length: {LIMIT}", shop.body + spaces, 200),
        (CHUNKED, chunk(shop.body + spaces) + LAST, 200),
        (f"Content-Length: {LIMIT + 1}", shop.body + spaces + b" ", 413),
        (CHUNKED, chunk(shop.body + spaces + b" "), 413),
        (CHUNKED, b"".join(map(chunk, [b" " * 8] * (LIMIT // 8 + 1))), 413),
    ]:
        with shop.connect() as connection:
            connection.send(head(line) + sent)
            answer = connection.read()
            assert answer.status == status, (line, answer.body)
            if status == 413:
                assert (answer.status, answer.json()) == TOO_LARGE
    assert shop.charged() == 2


def test_a_slow_body_is_400_after_the_time_limit(serve: Callable[..., Service]) -> None:
    """In all, however often a byte arrives; and searches are answered meanwhile."""
    shop = Shop(serve(BODY_TIMEOUT_S="2", RATE_LIMIT="1000000/m"))
    with shop.connect() as slow, shop.connect() as good:
        slow.send(head("Content-Length: 10000"))
        slow.sock.settimeout(0.05)
        sent, answered = 0, 0
        while sent < 5_000:
            slow.send(b" ")
            sent += 1
            if answered < 5:
                answered += good.send(request(SEARCH, shop.body)).read().status == 200
            try:
                answer = slow.read()
            except TimeoutError:
                continue
            break
        assert (answer.status, answer.json()) == MALFORMED
        assert answered == 5
    assert shop.charged() == 5


def test_many_slow_bodies_delay_no_search(serve: Callable[..., Service]) -> None:
    shop = Shop(serve(BODY_TIMEOUT_S="60", STOP_TIMEOUT_S="1", MAX_RUNNING_SEARCHES="2", MAX_WAITING_SEARCHES="0"))
    slow = [shop.connect() for _ in range(100)]
    try:
        for index, connection in enumerate(slow):
            path = SEARCH if index % 2 else "/admin/login/"
            connection.send(head("Content-Length: 1000", path=path) + b"{")
        with shop.connect() as good:
            # Answered after the headers above have been read: only what arrives in the same moment counts together.
            assert good.send(request("/livez", method="GET")).read().status == 200
            for _ in range(5):
                assert good.send(request(SEARCH, shop.body)).read().status == 200
            assert good.send(request("/admin/login/")).read().status == 200
    finally:
        for connection in slow:
            connection.sock.close()
    assert shop.charged() == 5


def test_a_truncated_form_is_not_acted_upon(shop: Shop) -> None:
    """`credits=1` may be the beginning of `credits=1000`."""
    for line, sent in (
        ("Content-Length: 5000", b"username=a&password=b"),
        (CHUNKED, chunk(b"username=a&password=b")),
    ):
        with shop.connect() as connection:
            form = {"path": "/admin/login/", "content_type": "application/x-www-form-urlencoded"}
            answer = connection.send(head(line, **form) + sent).read()
            assert (answer.status, answer.headers["connection"]) == (400, "close")


def test_a_client_that_waits_for_100_continue_gets_it(shop: Shop) -> None:
    with shop.connect() as connection:
        connection.send(head("Expect: 100-continue", f"Content-Length: {len(shop.body)}"))
        assert connection.read_head()[0] == 100
        assert connection.send(shop.body).read().status == 200
    assert shop.charged() == 1


def test_a_body_that_nobody_asked_for_is_read_and_ignored(shop: Shop) -> None:
    """Of health checks too; what follows it on the connection is the next request."""
    with shop.connect() as connection:
        for path in ("/livez", "/readyz", "/metrics", "/docs"):
            answer = connection.send(request(path, b"{}", method="GET")).read()
            assert answer.status == 200, path
        assert connection.send(request("/livez", b"{}")).read().status == 405


def test_a_client_that_leaves_has_charged_at_most_once(serve: Callable[..., Service]) -> None:
    """Its search may finish: a retry with its Idempotency-Key gets the same answer, charged once."""
    shop = Shop(serve(RATE_LIMIT="1000000/m"))
    sent = request(SEARCH, shop.body, "Idempotency-Key: k")
    for _ in range(20):
        with shop.connect() as connection:
            connection.send(sent)
    deadline = time.monotonic() + 60
    while True:
        with shop.connect() as connection:
            answer = connection.send(sent).read()
        if answer.status == 200:
            break
        assert time.monotonic() < deadline
    assert answer.json()["credits_remaining"] == 9
    assert shop.charged() == 1
