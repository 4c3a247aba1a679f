"""A TCP proxy in front of PostgreSQL that breaks one connection around one chosen message."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Literal, Self
from urllib.parse import urlsplit, urlunsplit

#: When the connection breaks: before the message reaches the server, once the server has received it, or after the
#: server has executed it but before its reply reaches the client. "held": before, and `deliver` forwards it later.
Moment = Literal["before", "begun", "after", "held"]

DEBIT = b"INTO accounts_creditentry"


class _Link:
    """A client's connection and the corresponding one to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.debits: set[bytes] = set()  # names of prepared statements that debit
        self.swallows = False
        self.ended = threading.Event()  # the server has closed its end

    def close(self, *sockets: socket.socket) -> None:
        for sock in sockets or (self.client, self.server):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class PostgresProxy:
    """`break_next` arms it for one connection; `broken` is set once that connection is broken."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        user, _, _ = parts.netloc.rpartition("@")
        address = f"{user}@127.0.0.1:{self.port}"
        # Unencrypted, or it could not read the messages.
        self.url = urlunsplit(parts._replace(netloc=address, query="sslmode=disable&gssencmode=disable"))
        self._armed: Moment | None = None
        self._refuses_after = False
        self._held: tuple[_Link, bytes] | None = None
        self._links: list[_Link] = []
        self.refuses = False
        self.broken = threading.Event()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def start(self) -> Self:
        self._acceptor.start()
        return self

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._acceptor.join()
        self._listener.close()
        for link in self._links:
            link.close()
            link.client.close()
            link.server.close()

    def break_next(self, moment: Moment, *, then_refuse: bool = False) -> None:
        """Break the next connection that makes a debit, around that statement, which commits itself.

        `then_refuse`: the others break too, and none gets through after that, until `refuses` is false again.
        """
        self.broken.clear()
        self._refuses_after = then_refuse
        self._armed = moment

    def deliver(self) -> None:
        """Forward the held message, and wait until the server has closed the connection."""
        assert self._held is not None
        link, message = self._held
        with suppress(OSError):
            link.server.sendall(message)
            link.close(link.client)
            link.server.shutdown(socket.SHUT_WR)
        assert link.ended.wait(30)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            self._links.append(link)
            for pump in (self._to_server, self._to_client):
                threading.Thread(target=pump, args=(link,), daemon=True).start()

    def _to_server(self, link: _Link) -> None:
        with suppress(OSError, EOFError):
            reader = link.client.makefile("rb")
            link.server.sendall(_startup(reader))
            for batch, meets in self._batches(link, reader):
                if meets is None:
                    link.server.sendall(batch)
                    continue
                if meets == "after":
                    link.swallows = True  # _to_client breaks it after the server's reply
                    link.server.sendall(batch)
                    continue
                if meets == "begun":
                    link.server.sendall(batch)
                elif meets == "held":
                    self._held = (link, batch)
                self._break(link, link.client, *([link.server] if meets == "before" else []))
                return
        if self._held is None or self._held[0] is not link:
            link.close()

    def _batches(self, link: _Link, reader: BinaryIO) -> Iterator[tuple[bytes, Moment | None]]:
        """Messages up to where the server replies, and whether to break the connection around them."""
        batch, meets = b"", None
        while True:
            kind, body = _message(reader)
            batch += kind + (len(body) + 4).to_bytes(4) + body
            if self._is_debit(link, kind, body) and self._armed:
                meets, self._armed = self._armed, None
            if kind in b"HQSX":  # Flush, Query, Sync, Terminate
                yield batch, meets
                batch, meets = b"", None

    def _is_debit(self, link: _Link, kind: bytes, body: bytes) -> bool:
        """Whether this message executes a statement that debits. Remembers the names of those that were prepared."""
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            (link.debits.add if DEBIT in text else link.debits.discard)(name)
        return kind == b"B" and body.split(b"\0", 2)[1] in link.debits

    def _to_client(self, link: _Link) -> None:
        with suppress(OSError):
            while data := link.server.recv(65536):
                if not link.swallows:
                    link.client.sendall(data)
                elif data[-6:-5] == b"Z":  # ReadyForQuery: it was executed
                    self._break(link, link.client, link.server)
        link.ended.set()
        link.close(link.client)

    def _break(self, link: _Link, *sockets: socket.socket) -> None:
        self.refuses = self._refuses_after
        for other in self._links if self.refuses else ():
            if other is not link:
                other.close()
        self.broken.set()
        link.close(*sockets)


def _startup(reader: BinaryIO) -> bytes:
    size = _exactly(reader, 4)
    return size + _exactly(reader, int.from_bytes(size) - 4)


def _message(reader: BinaryIO) -> tuple[bytes, bytes]:
    kind = _exactly(reader, 1)
    return kind, _exactly(reader, int.from_bytes(_exactly(reader, 4)) - 4)


def _exactly(reader: BinaryIO, size: int) -> bytes:
    if len(data := reader.read(size) or b"") < size:
        raise EOFError
    return data


@contextmanager
def postgres_proxy(url: str) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(url).start()
    try:
        yield proxy
    finally:
        proxy.stop()
