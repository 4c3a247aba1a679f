"""A mock vendor on loopback with real sockets. Each fault is reproduced on the wire."""

import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

GOOD_A = {"name": "Example Bakery", "city": "Springfield", "state": "IL"}
GOOD_B = {"name": "Example Sweepstakes", "score": 7}


@dataclass
class Conversation:
    """One request on one connection. `ended` is set when the server stops, or releases its requests."""

    sock: socket.socket
    head: bytes
    body: bytes
    ended: threading.Event

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reply(self, status: int = 200, body: bytes = b"", headers: str = "") -> None:
        self.send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n" % (status, len(body), headers.encode()) + body)


#: Answers one request, and returns whether the connection stays open.
Behaviour = Callable[[Conversation], bool]


@dataclass
class Upstream:
    behave: Behaviour
    tls: ssl.SSLContext | None = None
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    def start(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._ended = threading.Event()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def behave_as(self, behave: Behaviour) -> None:
        """How to answer from now on. Requests in progress are not affected."""
        self.behave = behave

    def release(self) -> None:
        """End the requests in progress."""
        self._ended.set()
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self._listener.close()
        for sock in list(self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, ValueError), sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            self._open.add(sock)
            try:
                while request := self._read(sock):
                    self.heads.append(request[0])
                    self.bodies.append(request[1])
                    if not self.behave(Conversation(sock, *request, self._ended)):
                        return
            finally:
                sock.close()
                self._open.discard(sock)

    @staticmethod
    def _read(sock: socket.socket) -> tuple[bytes, bytes] | None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (chunk := sock.recv(65536)):
                return None
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
        while len(body) < length:
            body += sock.recv(65536)
        return head, body


# --- Behaviours -----------------------------------------------------------------------------------------------------


def says(document: object, status: int = 200, headers: str = "Content-Type: application/json\r\n") -> Behaviour:
    return raw(json.dumps(document).encode(), status, headers)


def raw(body: bytes, status: int = 200, headers: str = "") -> Behaviour:
    def behave(conversation: Conversation) -> bool:
        conversation.reply(status, body, headers)
        return True

    return behave


def hangs(conversation: Conversation) -> bool:
    conversation.ended.wait(60)
    return False


def hangs_after_headers(conversation: Conversation) -> bool:
    conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
    return hangs(conversation)


def resets(conversation: Conversation) -> bool:
    conversation.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def half_closes(conversation: Conversation) -> bool:
    conversation.sock.shutdown(socket.SHUT_WR)
    return hangs(conversation)


def stops_short(conversation: Conversation) -> bool:
    conversation.send(b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"name":')
    return False


def _drip(conversation: Conversation, first: bytes) -> bool:
    conversation.send(first)
    while not conversation.ended.wait(0.02):
        conversation.send(b"x")
    return False


def drips_headers(conversation: Conversation) -> bool:
    return _drip(conversation, b"HTTP/1.1 200 OK\r\nX-Slow: ")


def drips_body(conversation: Conversation) -> bool:
    return _drip(conversation, b'HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{"name": "')


def drips_and_closes(conversation: Conversation) -> bool:
    return _drip(conversation, b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n{"name": "')


def drips_http_1_0(conversation: Conversation) -> bool:
    return _drip(conversation, b'HTTP/1.0 200 OK\r\n\r\n{"name": "')


def endless(conversation: Conversation) -> bool:
    conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    chunk = b" " * 65536
    while not conversation.ended.is_set():
        conversation.send(chunk)
    return False


BOMB = gzip.compress(b" " * 50_000_000)


def sends(data: bytes) -> Behaviour:
    """Send exactly this, then close the connection."""

    def behave(conversation: Conversation) -> bool:
        conversation.send(data)
        return False

    return behave


def slow(seconds: float, then: Behaviour) -> Behaviour:
    def behave(conversation: Conversation) -> bool:
        conversation.ended.wait(seconds)
        return then(conversation)

    return behave


def held(until: threading.Event, then: Behaviour, arrived: threading.Barrier | None = None) -> Behaviour:
    """Answer when the test sets `until`; each request first waits at the barrier `arrived`."""

    def behave(conversation: Conversation) -> bool:
        if arrived:
            arrived.wait(60)
        until.wait(60)
        return then(conversation)

    return behave


#: The faults of a vendor, each with the reason of the failure that follows.
FAULTS: dict[str, tuple[Behaviour, str]] = {
    "hangs before headers": (hangs, "late"),
    "hangs after headers": (hangs_after_headers, "late"),
    "drips headers": (drips_headers, "late"),
    "drips its body": (drips_body, "late"),
    "drips and closes": (drips_and_closes, "late"),
    "drips HTTP/1.0": (drips_http_1_0, "late"),
    "half-closes": (half_closes, "unavailable"),
    "resets": (resets, "unavailable"),
    "stops short": (stops_short, "unavailable"),
    "10 GB": (endless, "bad_response"),
    "gzip bomb": (raw(BOMB, headers="Content-Encoding: gzip\r\n"), "bad_response"),
    "broken gzip": (raw(b"\x1f\x8bno gzip", headers="Content-Encoding: gzip\r\n"), "bad_response"),
    "not HTTP": (sends(b"SSH-2.0-OpenSSH_9.2\r\n"), "unavailable"),
    "endless headers": (sends(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 1000 + b"\r\n"), "unavailable"),
    "HTML with 200": (raw(b"<html>Sign in</html>", headers="Content-Type: text/html\r\n"), "bad_response"),
    "invalid JSON": (raw(b'{"name": "Exam'), "bad_response"),
    "wrong types": (says({"name": 7, "score": "many", "city": [1]}), "bad_response"),
    "another shape": (says([{"name": "x"}]), "bad_response"),
    "deep JSON": (raw(b'{"name":' * 1000 + b"1" + b"}" * 1000), "bad_response"),
    "deeper JSON": (raw(b"[" * 60_000), "bad_response"),
    "204": (raw(b"", 204), "bad_response"),
    "301": (raw(b"", 301, "Location: http://169.254.169.254/latest\r\n"), "bad_response"),
    "301 with a bomb": (raw(BOMB, 301, "Content-Encoding: gzip\r\nLocation: /\r\n"), "bad_response"),
    "400": (raw(b"{}", 400), "bad_response"),
    "401": (raw(b"", 401), "auth"),
    "402": (raw(b"", 402), "quota"),
    "403": (raw(b"", 403), "auth"),
    "429": (raw(b"", 429), "rate_limited"),
    "429 with Retry-After": (raw(b"", 429, "Retry-After: 7\r\n"), "rate_limited"),
    "500": (raw(b"", 500), "unavailable"),
    "503": (raw(b"", 503), "unavailable"),
}
