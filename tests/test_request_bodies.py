"""Truncated and chunked bodies, sent over a socket: refused, never searched, never charged."""

import json
import socket
from collections.abc import Callable

import pytest

from tests.api import NUMBER
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

HEAD = "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MALFORMED = {"detail": "Malformed JSON body"}


class Shop:
    """A service, and a token of it with 10 credits."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.key = service.manage("create_token", "test", "--credits", "10", "--quiet").strip()
        self.body = json.dumps({"api_key": self.key, "query": NUMBER}).encode()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.service.port), timeout=60)

    def send(self, headers: str, body: bytes, path: str = "/callerid/search") -> bytes:
        """The answer, after the client has closed its half of the connection behind the body."""
        with self.connect() as connection:
            connection.sendall(f"{HEAD.format(path=path)}{headers}\r\n\r\n".encode() + body)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def vanish(self, headers: str, body: bytes) -> None:
        """Send and close the connection, without waiting for an answer."""
        with self.connect() as connection:
            connection.sendall(f"{HEAD.format(path='/callerid/search')}{headers}\r\n\r\n".encode() + body)

    def charged(self) -> int:
        """Credits that searches have taken, once the service has finished every request: it stops."""
        self.service.stop()
        (line,) = json.loads(self.service.manage("list_tokens", "--json"))
        return 10 - int(line["credits"])


@pytest.fixture
def shop(serve: Callable[..., Service]) -> Shop:
    return Shop(serve())


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def status_and_body(answer: bytes) -> tuple[bytes, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.split(b" ", 2)[1], json.loads(body)


def test_a_truncated_body_is_neither_searched_nor_charged(shop: Shop) -> None:
    for headers, sent in [
        ("Content-Length: 5000", shop.body),
        ("Transfer-Encoding: chunked", chunk(shop.body)),
        ("Transfer-Encoding: chunked", chunk(shop.body)[:-2]),
        ("Transfer-Encoding: chunked", b"1388\r\n" + shop.body),
        ("Transfer-Encoding: chunked", chunk(shop.body) + b"zz\r\n"),
    ]:
        assert status_and_body(shop.send(headers, sent)) == (b"400", MALFORMED), headers
        shop.vanish(headers, sent)
    # Through a connection that has carried a search before.
    with shop.connect() as connection:
        head = HEAD.format(path="/callerid/search")
        connection.sendall(f"{head}Content-Length: {len(shop.body)}\r\n\r\n".encode() + shop.body)
        first = b""
        while b"credits_remaining" not in first:
            first += connection.recv(65_536)
        connection.sendall(f"{head}Content-Length: 5000\r\n\r\n".encode() + shop.body)
        connection.shutdown(socket.SHUT_WR)
        second = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert status_and_body(second) == (b"400", MALFORMED)
    assert shop.charged() == 1


def test_a_truncated_form_is_not_acted_upon(shop: Shop) -> None:
    """`credits=1` may be the beginning of `credits=1000`."""
    for headers in ("Content-Length: 5000", "Transfer-Encoding: chunked"):
        answer = shop.send(headers, b"username=a&password=b", path="/admin/login/")
        assert answer.startswith(b"HTTP/1.1 400 ")
