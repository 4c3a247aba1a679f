"""Connections to Redis whose host's name is looked up within a time limit: the system's own lookup has none."""

import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from redis.connection import Connection, SSLConnection


class Resolver:
    """Looks names up on threads of its own, one at a time for each name: one that hangs holds no caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, Future[list[str]]] = {}
        self._known: dict[str, list[str]] = {}

    def addresses(self, host: str, timeout_s: float | None) -> list[str]:
        """The IP addresses of `host`. Where the lookup takes longer than `timeout_s`, those that were found last.

        Raises TimeoutError where none are known, and OSError for a name that does not exist.
        """
        with suppress(socket.gaierror):
            return _addresses(host, socket.AI_NUMERICHOST)  # it is an address already
        with self._lock:
            lookup = self._pending.get(host)
            if lookup is None:
                lookup = Future()
                threading.Thread(target=self._look_up, args=(host, lookup), name="redis-dns", daemon=True).start()
                self._pending[host] = lookup
        try:
            return lookup.result(timeout_s)
        except TimeoutError:
            if known := self._known.get(host):
                return known
            raise

    def _look_up(self, host: str, lookup: "Future[list[str]]") -> None:
        try:
            found = self._known[host] = _addresses(host)
        except BaseException as error:
            lookup.set_exception(error)
        else:
            lookup.set_result(found)
        finally:
            with self._lock:
                del self._pending[host]


def _addresses(host: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


resolver = Resolver()


class TCPConnection(Connection):
    def _connect(self) -> Any:
        """redis-py's, to each address of the host until one answers."""
        host, failure = self.host, None
        try:
            for address in resolver.addresses(host, self.socket_connect_timeout):
                self.host = address
                try:
                    return super()._connect()
                except OSError as error:
                    failure = error
        finally:
            self.host = host  # which a certificate has to name
        raise failure or OSError("the host has no address")


class TLSConnection(SSLConnection, TCPConnection):
    """SSLConnection makes its socket by the next class in this order: TCPConnection."""
