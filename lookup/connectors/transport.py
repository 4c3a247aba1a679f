"""One HTTP exchange with a vendor: over `requests`, and with the limits that `requests` has not.

- A call ends after its lifetime, whatever drips: a thread of ours shuts its socket down from outside (`requests`'
  timeout is one for each read, no deadline).
- It goes to a public address, or to the loopback or private one that was asked for, checked on the connected peer:
  what DNS says of a host does not matter.
- Redirects are not followed, the environment's proxies and .netrc not read, cookies not kept, and a body is read up to
  a limit that counts after decompression.
"""

import heapq
import http.client
import ipaddress
import itertools
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from multiprocessing.util import Finalize
from typing import Any, Literal
from urllib.parse import urlsplit

import requests
import urllib3
from django.conf import settings
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError, ProtocolError
from urllib3.util.connection import create_connection

from lookup.connectors.preset import LOOPBACK

CONNECT_TIMEOUT_S = 3.0

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

#: Which addresses a host may have.
Peers = Literal["public", "private", "loopback"]


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


class _Refused(Exception):
    """The connected peer has an address that this vendor may not have."""


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


def peers_for(origin: str, *, private_network: bool) -> Peers:
    if LOOPBACK.fullmatch(urlsplit(origin).hostname or ""):
        return "loopback"
    return "private" if private_network else "public"


def send(request: Request, *, peers: Peers, retry_within_s: float, lifetime_s: float, max_body_bytes: int) -> Reply:
    """The vendor's reply. Where no connection was made, one more attempt, if it begins within `retry_within_s`.

    Raises NoReply and BadReply.
    """
    started = time.monotonic()
    call = _Call(peers, started + lifetime_s)
    _here.call = call
    _reaper.watch(call)
    try:
        try:
            return _exchange(request, call, max_body_bytes)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if not call.may_be_repeated(request, error) or time.monotonic() - started >= retry_within_s:
                raise
            return _exchange(request, call, max_body_bytes)
    except _Refused:
        raise NoReply("its host has an address that is not allowed; see private_network") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        if call.ended:
            raise NoReply(f"it was not done after {lifetime_s:g} s") from None
        raise NoReply(_problem(error)) from None
    finally:
        call.done()


def _exchange(request: Request, call: "_Call", max_body_bytes: int) -> Reply:
    response = _session().request(
        request.method,
        request.url,
        headers=request.headers,
        json=request.json,
        data=request.form or None,
        auth=request.basic,
        # For each read; it is the reaper that keeps the time, and has the last word.
        timeout=(CONNECT_TIMEOUT_S, max(0.0, call.ends_at - time.monotonic()) + 1),
        allow_redirects=False,
        stream=True,
        verify=settings.CA_BUNDLE or True,
    )
    with response:
        body = bytearray()
        for chunk in response.iter_content(16 * 1024):
            body += chunk
            if len(body) > max_body_bytes:
                raise BadReply(f"its answer is larger than {max_body_bytes} bytes")
    if call.ended:  # to a reader, a socket that was shut down looks like an answer that is complete
        raise TimeoutError
    return Reply(response.status_code, response.headers, bytes(body))


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
        self.connected = False
        self.ended = False
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._done = False

    def use(self, line: socket.socket) -> None:
        """`line`: a duplicate of the socket in use. Raises TimeoutError when the call has ended already."""
        with self._lock:
            self._line = line
            if self.ended:
                raise TimeoutError

    def end(self) -> None:
        with self._lock:
            if self._done:
                return
            self.ended = True
            if self._line is not None:
                with suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)

    def done(self) -> None:
        with self._lock:
            self._done = True
            self._line = None

    def may_be_repeated(self, request: Request, error: Exception) -> bool:
        """Whether the vendor cannot have answered: no connection was made, or a kept one turned out to be closed."""
        cause = error.args[0] if error.args and isinstance(error, requests.ConnectionError) else None
        if self.ended:
            return False
        if isinstance(cause, ProtocolError) and not self.connected:
            gone = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
            return request.method == "GET" and isinstance(cause.args[-1], gone)
        return isinstance(getattr(cause, "reason", None), NewConnectionError)


class _Reaper:
    """A thread that ends the calls whose time is over."""

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
                # A worker that is told to stop waits for its threads: not for a vendor that hangs. (Not atexit, which
                # granian's workers, multiprocessing's children, end without.)
                Finalize(None, self.end_all, exitpriority=10)
            first = not self._calls or call.ends_at < self._calls[0][0]
            heapq.heappush(self._calls, (call.ends_at, next(self._count), call))
            if first:
                self._changed.notify()

    def end_all(self) -> None:
        with self._changed:
            calls = [call for _, _, call in self._calls]
        for call in calls:
            call.end()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._calls or self._calls[0][0] > time.monotonic():
                    self._changed.wait(self._calls[0][0] - time.monotonic() if self._calls else None)
                _, _, call = heapq.heappop(self._calls)
            call.end()


_reaper = _Reaper()


# --- Sessions, and connections that check whom they reached ----------------------------------------------------------


class _Here(threading.local):
    """What belongs to this thread: its session, and the call that it makes at present."""

    call: _Call
    session: requests.Session | None = None


_here = _Here()


def _session() -> requests.Session:
    if _here.session is None:
        session = requests.Session()
        session.trust_env = False
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("https://", "http://"):
            session.mount(scheme, _Adapter(pool_connections=2, pool_maxsize=1))
        _here.session = session
    return _here.session


class _Watched:
    """A connection of urllib3's that checks its peer and hands the call a handle to end it by.

    The handle is a duplicate: TLS takes the socket itself over.
    """

    _line: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        """As urllib3's, with the call's own time for all of the host's addresses together."""
        call, host, port = _here.call, self._dns_host, self.port  # type: ignore[attr-defined]
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
            self._line = sock.dup()
            call.connected = True
            call.use(self._line)
        except BaseException:
            sock.close()
            raise
        return sock

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self._line is not None:
            _here.call.use(self._line)
        super().request(*args, **kwargs)  # type: ignore[misc]

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        if self._line is not None:
            self._line.close()
            self._line = None


class _WatchedHTTP(_Watched, HTTPConnection):
    pass


class _WatchedHTTPS(_Watched, HTTPSConnection):
    pass


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _WatchedHTTP


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedHTTPS


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}


def require_allowed(address: str, peers: Peers) -> None:
    """Raises _Refused. Link-local addresses, where clouds keep their secrets, are never allowed."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # An IPv4 address in IPv6's clothes: mapped (RFC 4291), 6to4 (RFC 3056), NAT64 (RFC 6052).
        translated = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or translated or ip
    if peers == "loopback":
        allowed = ip.is_loopback
    elif peers == "private":
        allowed = not (ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified)
    else:
        allowed = ip.is_global and not ip.is_multicast
    if not allowed:
        raise _Refused
