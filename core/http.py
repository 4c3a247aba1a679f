"""HTTP requests of commands and threads, by `requests`; searches call vendors by aiohttp (lookup/vendors/transport.py).

A session checks each address before it connects to it, those of redirects included, uses no proxy and no .netrc of the
environment, and verifies certificates with CA_BUNDLE.
"""

import io
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

import requests
import urllib3
from django.conf import settings
from requests.adapters import HTTPAdapter

from core.addresses import AddressNotAllowed, AddressPolicy, require_allowed
from core.loop import DaemonThreads

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 60.0
MAX_REDIRECTS = 5
MAX_RETRY_AFTER_S = 24 * 3600
_NOT_ALLOWED = "the server, or a redirect, has an address that is not allowed"
_lookups = DaemonThreads()
_SECONDS = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?:s|secs?|seconds?)?", re.ASCII)
# Of 2001; a smaller number is a duration.
_UNIX_TIME = 1e9


class RequestFailed(Exception):
    """No response arrived, or only a part of it. The text is for operators: no URL, credentials or number."""


class RequestInterrupted(RequestFailed):
    """Another attempt may succeed; after `wait_s` seconds, if the server said so."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class BadResponse(RequestFailed):
    """The response must not be read."""


class Session:
    """Requests of `url` and what it redirects to, each at most `timeout_s` long, name resolution included, and however
    slowly bytes arrive.

    Plain HTTP is allowed only if `url` is HTTP. Use it in a `with` block.
    """

    def __init__(self, url: str, policy: AddressPolicy, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._adapter = _Adapter(policy, https_only=urlsplit(url).scheme == "https")
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = settings.CA_BUNDLE or True
        self._session.max_redirects = MAX_REDIRECTS
        for prefix in ("http://", "https://"):
            self._session.mount(prefix, self._adapter)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()
        self._adapter.disconnect()

    @contextmanager
    def request(self, method: str, url: str, **options: Any) -> Iterator[requests.Response]:
        """The response, whose body is read from `raw` in the block; `options` are those of `requests`. Redirects are
        not followed unless `allow_redirects`. Raises RequestFailed, also in the block."""
        self._adapter.deadline = time.monotonic() + self._timeout_s

        def require_in_time() -> None:
            """The end of the connection may look like that of the headers, or of the body."""
            if self._adapter.remaining_s() <= 0:
                raise RequestFailed(f"the response did not arrive within {self._timeout_s:,g} s")

        timer = threading.Timer(self._timeout_s, self._adapter.disconnect)
        timer.daemon = True
        timer.start()
        try:
            with self._response(method, url, **{"allow_redirects": False, **options}) as response:
                require_in_time()
                yield response
                require_in_time()
        except urllib3.exceptions.HTTPError:
            require_in_time()
            raise RequestInterrupted("the server closed the connection too early") from None
        except RequestInterrupted:
            require_in_time()
            raise
        finally:
            timer.cancel()

    def _response(self, method: str, url: str, **options: Any) -> requests.Response:
        timeout = (min(CONNECT_TIMEOUT_S, self._timeout_s), READ_TIMEOUT_S)
        try:
            return self._session.request(method, url, stream=True, timeout=timeout, **options)
        except (requests.TooManyRedirects, ValueError):  # ValueError: an invalid URL, or a scheme other than HTTP
            raise RequestFailed("the server redirects too often, or to an invalid address") from None
        except requests.exceptions.SSLError:
            raise RequestFailed("the server's TLS certificate or handshake was rejected") from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            if settings.CA_BUNDLE and not os.access(settings.CA_BUNDLE, os.R_OK):
                raise RequestFailed("the certificates in CA_BUNDLE cannot be read") from None
            raise RequestInterrupted("the server could not be reached, or did not answer in time") from None


class _Adapter(HTTPAdapter):
    """Sends each request of a session, over one connection at a time, which it can end. `deadline`: when the time of
    the request is over (time.monotonic)."""

    def __init__(self, policy: AddressPolicy, *, https_only: bool) -> None:
        self._policy, self._https_only = policy, https_only
        self._sockets: list[socket.socket] = []
        self.deadline = 0.0
        super().__init__()

    def remaining_s(self) -> float:
        return self.deadline - time.monotonic()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        pools = (urllib3.HTTPConnectionPool, urllib3.HTTPSConnectionPool)
        self.poolmanager.pool_classes_by_scheme = {pool.scheme: self._checked(pool) for pool in pools}

    def _checked(self, pool: type[urllib3.HTTPConnectionPool]) -> type[urllib3.HTTPConnectionPool]:
        """`pool`, with connections to allowed addresses. urllib3 has no other hook for it (its issue 3675)."""
        adapter = self

        class Connection(pool.ConnectionCls):  # type: ignore[name-defined]
            def _new_conn(self) -> socket.socket:
                return adapter._connect(self.host, self.port, self.timeout)

        return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

    def _connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """A connection to the first address of the host that can be reached. The addresses are those that were checked:
        a second lookup could return others (DNS rebinding). Raises OSError, and RequestFailed if one is not allowed."""
        addresses = self._resolve(host, port, timeout_s)
        try:
            for address in addresses:
                require_allowed(address, self._policy)
        except AddressNotAllowed:
            raise RequestFailed(_NOT_ALLOWED) from None
        for address in addresses:
            if (remaining_s := self.remaining_s()) <= 0:
                break
            with suppress(OSError):
                connected = socket.create_connection((address, port), min(timeout_s, remaining_s))
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.disconnect()
                self._sockets.append(connected.dup())  # before TLS, which replaces the socket
                if self.remaining_s() <= 0:  # since then, and nothing was there to end
                    self.disconnect()
                return connected
        raise OSError(f"no connection to any of {len(addresses)} addresses")

    def _resolve(self, host: str, port: int, timeout_s: float) -> list[str]:
        """The addresses of the host. A lookup cannot be ended, and is left to its thread when the time is over. Raises
        OSError."""
        lookup = _lookups.submit(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))
        return [str(entry[4][0]) for entry in lookup.result(max(0.0, min(timeout_s, self.remaining_s())))]

    def disconnect(self) -> None:
        """End what is in progress; whoever waits for bytes gets the end of the connection."""
        with suppress(IndexError):  # none is left; the timer may take one too
            while True:
                with self._sockets.pop() as noted, suppress(OSError):
                    noted.shutdown(socket.SHUT_RDWR)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        if self._https_only and urlsplit(request.url or "").scheme != "https":
            raise RequestFailed(_NOT_ALLOWED)
        response = super().send(request, *args, **kwargs)
        # Session, or digest authentication, would read its body, which may be endless.
        if response.is_redirect or response.status_code == 401:
            response.close()
            response.raw = urllib3.HTTPResponse(io.BytesIO(), preload_content=False)
        return response


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds from now in Retry-After: a number or a date (RFC 9110, section 10.2.3), or what APIs send instead of
    them: a fraction, a date of ISO 8601, the Unix time in seconds or milliseconds. Times are compared with the server's
    own clock, its Date. None: there is none, or it cannot be meant: it is over, or more than a day away."""
    text = headers.get("Retry-After", "").strip()
    if number := _SECONDS.fullmatch(text):
        wait_s = float(number[1])
        at = wait_s / 1000 if wait_s >= _UNIX_TIME * 1000 else wait_s
    else:
        at = _timestamp(text)
    if at >= _UNIX_TIME or not number:
        wait_s = at - (_timestamp(headers.get("Date", "")) or time.time())
    return wait_s if 0 <= wait_s <= MAX_RETRY_AFTER_S else None


def _timestamp(date: str) -> float:
    """0 if it cannot be read."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, OverflowError):
            parsed = read(date)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    return 0.0
