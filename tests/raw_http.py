"""HTTP over a socket as no client library would send it: piece by piece, incomplete, malformed, pipelined."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers`: by name in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """To a service on this machine."""

    def __init__(self, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.sock.close()

    def send(self, data: bytes) -> Self:
        self.sock.sendall(data)
        return self

    def read(self) -> Answer:
        """The next response. Raises ConnectionError if the connection ends before it does."""
        status, headers = self.read_head()
        if "content-length" in headers:
            return Answer(status, headers, self._take(int(headers["content-length"])))
        return Answer(status, headers, b"".join(self.read_chunks()))

    def read_head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        first, *lines = self._take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(first.split(" ")[1]), headers

    def read_chunks(self) -> Iterator[bytes]:
        """Of a response with `Transfer-Encoding: chunked`."""
        while length := int(self._take_until(b"\r\n"), 16):
            yield self._take(length)
            self._take(2)
        self._take(2)

    def is_closed(self) -> bool:
        """Whether the server closes the connection now, without sending anything more. Waits until it does either."""
        try:
            return not (self._received or self.sock.recv(1))
        except ConnectionError:
            return True

    def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            self._receive()
        taken, self._received = self._received[:length], self._received[length:]
        return taken

    def _take_until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._receive()
        taken, _, self._received = self._received.partition(end)
        return taken

    def _receive(self) -> None:
        if not (received := self.sock.recv(65_536)):
            raise ConnectionError("closed")
        self._received += received


def request(
    path: str, body: bytes | None = None, *headers: str, method: str = "", content_type: str = "application/json"
) -> bytes:
    """A complete request: POST if there is a body, else GET. `headers`: lines, such as `X-Request-ID: a`."""
    lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", "Host: localhost", *headers]
    if body is not None:
        lines.append(f"Content-Type: {content_type}")
        if not any(line.lower().startswith(("content-length:", "transfer-encoding:")) for line in headers):
            lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
