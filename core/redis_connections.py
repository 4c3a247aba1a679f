"""Redis connections with a time limit on the DNS lookup, since the system's own has none, and those to the master that
Redis Sentinels know."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.connection import Connection, SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.sentinel import MasterNotFoundError, Sentinel


class Resolver:
    """Looks names up in background threads, one lookup at a time for each name, so that none blocks a caller."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[str, Future[list[str]]] = {}
        self._cached: dict[str, list[str]] = {}

    def addresses(self, host: str, timeout_s: float | None) -> list[str]:
        """The IP addresses of `host`; those of the last lookup where this one takes longer than `timeout_s`.

        Raises TimeoutError when there was no lookup before, and OSError for a name that does not exist.
        """
        with suppress(socket.gaierror):
            return _getaddrinfo(host, socket.AI_NUMERICHOST)  # `host` is an address
        with self._lock:
            lookup = self._pending.get(host)
            if lookup is None:
                lookup = Future()
                thread = threading.Thread(target=self._look_up, args=(host, lookup), name="redis-dns", daemon=True)
                thread.start()
                self._pending[host] = lookup  # only now: start() may raise, and the next call tries again
        try:
            return lookup.result(timeout_s)
        except TimeoutError:
            if cached := self._cached.get(host):
                return cached
            raise

    def _look_up(self, host: str, lookup: "Future[list[str]]") -> None:
        try:
            found = self._cached[host] = _getaddrinfo(host)
        except BaseException as error:
            lookup.set_exception(error)
        else:
            lookup.set_result(found)
        finally:
            with self._lock:
                del self._pending[host]


def _getaddrinfo(host: str, flags: int = 0) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


#: This process's resolver. Tests replace it.
resolver = Resolver()


class TCPConnection(Connection):
    """`find_master`: returns the host and port to connect to, which then replace those of `options`."""

    def __init__(self, find_master: Callable[[], tuple[str, int]] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._find_master = find_master

    def _connect(self) -> Any:
        """Try each address of the host until one accepts the connection."""
        if self._find_master is not None:
            self.host, self.port = self._find_master()
        host, failure = self.host, None
        try:
            for address in resolver.addresses(host, self.socket_connect_timeout):
                self.host = address
                try:
                    return super()._connect()
                except OSError as error:
                    failure = error
        finally:
            self.host = host  # certificates are verified against the name
        raise failure or OSError("the host has no address")

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)
        except ReadOnlyError as error:
            # It has become a replica: what resolves now, or what the Sentinels say, may be the master.
            self.disconnect()
            raise RedisConnectionError("the server is read-only") from error


class TLSConnection(SSLConnection, TCPConnection):
    """TLS over TCPConnection: SSLConnection creates its socket by the next class in the MRO."""


class NoMasterFound(RedisTimeoutError):
    """No Sentinel knows a master: a TimeoutError, because those are not retried at once."""


class LockedSentinel(Sentinel):
    """The library reorders its list of Sentinels, and two threads that do so at once may lose one."""

    def __init__(self, sentinels: list[Redis]) -> None:
        super().__init__([])
        self.sentinels = sentinels
        self._lock = threading.Lock()

    def discover_master(self, service_name: str) -> Any:
        """Its host and port. Raises NoMasterFound."""
        with self._lock:
            try:
                return super().discover_master(service_name)
            except MasterNotFoundError as error:
                raise NoMasterFound(f"no Sentinel knows a master named {service_name}") from error
