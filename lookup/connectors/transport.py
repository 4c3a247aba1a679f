"""One HTTP exchange with a vendor: over `requests`, and with the limits that `requests` has not.

- A call ends after its lifetime, whatever drips: a thread of ours shuts its socket down from outside (`requests`'
  timeout is one for each read, no deadline).
- It goes to a public address, or to the loopback or private one that was asked for, checked on the connected peer:
  what DNS says of a host does not matter.
- Redirects are not followed, the environment's proxies and .netrc not read, cookies not kept, and a body is read up to
  a limit that counts after decompression.
"""

import heapq
import itertools
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import certifi
import requests
import urllib3
from django.conf import settings
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import default_headers
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util import create_urllib3_context
from urllib3.util.connection import create_connection

from lookup.connectors.addresses import AddressRefused, Peers, require_allowed

CONNECT_TIMEOUT_S = 3.0

# A connection that nobody used for so long is made anew: what stands between may have dropped it without a word.
IDLE_S = 30.0

_HEADERS = default_headers()


class NoReply(Exception):
    """The vendor was not reached, or went away. `problem`: for the operator, without address, key or number."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class BadReply(Exception):
    """What came is no reply that may be read. `problem`: as above."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    json: Any = field(repr=False, default=None)
    form: dict[str, str] = field(repr=False, default_factory=dict)
    basic: tuple[str, str] | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """One vendor's connections, each thread's own. `peers`: which addresses it may have.

    There is no session of requests': it merges settings, cookies, redirects and the environment's proxies into every
    call, all of which a vendor's API does without.
    """

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self._here = threading.local()
        # Counts calls that got no reply: connections from before may be dead without a word (a load balancer that has
        # failed over, an address translation that was dropped), each thread's own, and would fail one by one.
        self._losses = 0

    def send(self, request: Request, *, retry_within_s: float, lifetime_s: float, max_body_bytes: int) -> Reply:
        """The vendor's reply. Where no connection could be made, one more attempt, if it begins within
        `retry_within_s`; what may have reached the vendor is not sent again, for it may be billed.

        Raises NoReply and BadReply.
        """
        started = time.monotonic()
        call = _Call(self.peers, started + lifetime_s)
        _at_present.call = call
        _reaper.watch(call)
        try:
            try:
                return self._exchange(request, call, max_body_bytes)
            except requests.ConnectionError as error:
                if call.ended or not _not_connected(error) or time.monotonic() - started >= retry_within_s:
                    raise
                return self._exchange(request, call, max_body_bytes)
        except AddressRefused:
            raise NoReply("its host has an address that is not allowed; see private_network") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            self._losses += 1
            if call.ended:
                raise NoReply(f"it was not done after {lifetime_s:g} s") from None
            raise NoReply(_problem(error)) from None
        finally:
            call.done()

    def _exchange(self, request: Request, call: "_Call", max_body_bytes: int) -> Reply:
        # For each read; it is the reaper that keeps the time, and has the last word.
        timeout_s = (CONNECT_TIMEOUT_S, max(0.0, call.ends_at - time.monotonic()) + 1)
        with self._connections().send(_prepared(request), stream=True, timeout=timeout_s) as response:
            body = bytearray()
            for chunk in response.iter_content(16 * 1024):
                body += chunk
                if len(body) > max_body_bytes:
                    raise BadReply(f"its answer is larger than {max_body_bytes} bytes")
        if call.ended:  # to a reader, a socket that was shut down looks like an answer that is complete
            raise TimeoutError
        return Reply(response.status_code, response.headers, bytes(body))

    def _connections(self) -> HTTPAdapter:
        """This thread's, which were in use lately and not before a call was lost."""
        here, now = self._here, time.monotonic()
        if getattr(here, "connections", None) is None:
            here.connections = _Adapter(pool_connections=1, pool_maxsize=1)
        elif here.losses != self._losses or now - here.used_at > IDLE_S:
            here.connections.close()
        here.losses, here.used_at = self._losses, now
        return here.connections


def require_sendable(request: Request) -> None:
    """Raises ValueError for what `requests` will not send, whatever the vendor: a host, header or body that is none."""
    try:
        _prepared(request)
    except (requests.RequestException, UnicodeError, TypeError) as error:
        raise ValueError(type(error).__name__) from None


def _prepared(request: Request) -> requests.PreparedRequest:
    headers = CaseInsensitiveDict({**_HEADERS, **request.headers})
    return requests.Request(
        request.method, request.url, headers, json=request.json, data=request.form or None, auth=request.basic
    ).prepare()


def _not_connected(error: requests.ConnectionError) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(getattr(cause, "reason", None), NewConnectionError)


def _problem(error: BaseException) -> str:
    causes = set()
    cause: BaseException | None = error
    while cause is not None and type(cause) not in causes:
        causes.add(type(cause))
        reason = getattr(cause, "reason", None) or (cause.args[0] if cause.args else None)
        cause = reason if isinstance(reason, BaseException) else cause.__cause__ or cause.__context__
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate or TLS is refused"
    if urllib3.exceptions.NameResolutionError in causes:
        return "its host's name is not known"
    if isinstance(error, requests.ConnectTimeout):
        return "it could not be reached in time"
    if NewConnectionError in causes:
        return "it could not be reached"
    if isinstance(error, requests.Timeout):
        return "it did not answer in time"
    return "it broke the connection off or answered with what is not HTTP"


# --- The end of a call, from outside --------------------------------------------------------------------------------


class _Call:
    """One exchange: what it may talk to, when it ends, and the handle by which it can be ended."""

    def __init__(self, peers: Peers, ends_at: float) -> None:
        self.peers = peers
        self.ends_at = ends_at
        self.ended = False
        self._lock = threading.Lock()
        self._line: int | None = None
        self.is_done = False

    def use(self, sock: socket.socket) -> None:
        """Keep a duplicate of the socket in use: TLS takes the socket itself over, and http.client closes it early
        where the reply says so. Raises TimeoutError when the call has ended already."""
        with self._lock:
            self._let_go()
            self._line = os.dup(sock.fileno())
            if self.ended:
                raise TimeoutError

    def end(self) -> None:
        with self._lock:
            if self.is_done:
                return
            self.ended = True
            if self._line is not None:
                line = socket.socket(fileno=self._line)
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                line.detach()

    def done(self) -> None:
        with self._lock:
            self.is_done = True
            self._let_go()

    def _let_go(self) -> None:
        if self._line is not None:
            os.close(self._line)
            self._line = None


class _Reaper:
    """A thread that ends the calls whose time is over. It sleeps until the oldest that is not done may have to be: were
    it woken for each, it would take the interpreter from a search each time."""

    def __init__(self) -> None:
        self._calls: list[tuple[float, int, _Call]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, call: _Call) -> None:
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="reaper", daemon=True)
                self._thread.start()
            first = not self._calls or call.ends_at < self._calls[0][0]
            heapq.heappush(self._calls, (call.ends_at, next(self._count), call))
            if first:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (call := self._due()):
                    self._changed.wait(self._calls[0][0] - time.monotonic() if self._calls else None)
            call.end()

    def _due(self) -> "_Call | None":
        """One whose time is over; those that are done are forgotten."""
        while self._calls:
            ends_at, _, call = self._calls[0]
            if not call.is_done and ends_at > time.monotonic():
                return None
            heapq.heappop(self._calls)
            if not call.is_done:
                return call
        return None


_reaper = _Reaper()


# --- Connections that check whom they reached -------------------------------------------------------------------------


class _AtPresent(threading.local):
    """The call that this thread makes at present."""

    call: _Call


_at_present = _AtPresent()


class _Watched:
    """A connection of urllib3's that checks its peer and hands its socket to the call."""

    def _new_conn(self) -> socket.socket:
        """As urllib3's, with the call's own time for all of the host's addresses together."""
        call, host, port = _at_present.call, self._dns_host, self.port  # type: ignore[attr-defined]
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise NameResolutionError(host, self, error) from error  # type: ignore[arg-type]
        failure: OSError | None = None
        for address in dict.fromkeys(str(entry[4][0]) for entry in found):
            require_allowed(address, call.peers)
            timeout_s = min(CONNECT_TIMEOUT_S, call.ends_at - time.monotonic())
            if timeout_s <= 0:
                raise TimeoutError
            try:
                sock = create_connection(
                    (address, port),
                    timeout_s,
                    socket_options=self.socket_options,  # type: ignore[attr-defined]
                )
            except OSError as error:
                failure = error
                continue
            return self._watched(sock, call)
        if isinstance(failure, TimeoutError):
            raise ConnectTimeoutError(self, "no address answers") from failure
        raise NewConnectionError(self, "no address answers") from failure  # type: ignore[arg-type]

    def _watched(self, sock: socket.socket, call: _Call) -> socket.socket:
        try:
            require_allowed(sock.getpeername()[0], call.peers)
            sock.settimeout(self.timeout)  # type: ignore[attr-defined]
            call.use(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.sock is not None:  # type: ignore[attr-defined]
            _at_present.call.use(self.sock)  # type: ignore[attr-defined]
        super().request(*args, **kwargs)  # type: ignore[misc]


class _WatchedHTTP(_Watched, HTTPConnection):
    pass


class _WatchedHTTPS(_Watched, HTTPSConnection):
    pass


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _WatchedHTTP


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedHTTPS


class _Adapter(HTTPAdapter):
    """All connections share one TLS context: else the authorities are read anew for each, which is milliseconds."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=_tls(settings.CA_BUNDLE), **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to add: the context verifies certificate and host name."""


@lru_cache(maxsize=4)
def _tls(ca_bundle: str) -> ssl.SSLContext:
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.load_verify_locations(ca_bundle or certifi.where())
    return context
