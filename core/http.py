"""Outgoing HTTP, by aiohttp: vendor calls (lookup/vendors/transport.py), and what commands and threads fetch or send.

- Every address is checked before it is connected to, redirected ones included, whether DNS returned it or the URL has
  it (SSRF).
- No proxy, .netrc or cookie is used, no request is sent again, and certificates are verified with CA_BUNDLE.
- What precedes the status of a response is limited; callers limit its body.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from django.conf import settings

from core import loop
from core.addresses import AddressNotAllowed, AddressPolicy, require_allowed

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10.0, 60.0
MAX_REDIRECTS = 5
MAX_RETRY_AFTER_S = 24 * 3600.0
# A connection that was idle for longer is opened anew: a firewall in between may have dropped it silently.
IDLE_S = 30.0
# Before a response's final status. A server needs one or two informational responses (RFC 9110, section 15.2).
MAX_INFORMATIONAL = 16
MAX_HEAD_BYTES = 64 * 1024
_PART_BYTES = 4096
_CHUNK_BYTES = 256 * 1024

T = TypeVar("T")


class RequestFailed(Exception):
    """No response arrived, or only a part of it. The text is for operators: no URL, credentials or number."""


class RequestInterrupted(RequestFailed):
    """Another attempt may succeed; after `wait_s` seconds, if the server said so."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class BadResponse(RequestFailed):
    """The response must not be read."""


def failure(error: BaseException) -> RequestFailed:
    """What an exception of aiohttp's means. Its own text may have the URL."""
    if isinstance(error, RequestFailed):
        return error
    if isinstance(getattr(error, "os_error", None), AddressNotAllowed):
        return RequestFailed("the server, or a redirect, has an address that is not allowed")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return RequestFailed("the server's TLS certificate or handshake was rejected")
    if isinstance(error, aiohttp.TooManyRedirects | aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return RequestFailed("the server redirects too often, or to an invalid address")
    if isinstance(error, ValueError):
        return RequestFailed("the request has a header that cannot be sent")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return RequestInterrupted("the server's name cannot be resolved")
    if isinstance(error, aiohttp.ClientConnectorError):
        return RequestInterrupted("the server could not be reached")
    if isinstance(error, aiohttp.ServerTimeoutError):
        return RequestInterrupted("the server did not answer in time")
    return RequestInterrupted("the server closed the connection or did not answer with HTTP")


def open_session(policy: AddressPolicy, **options: Any) -> aiohttp.ClientSession:
    """A session whose servers have addresses that `policy` allows; `options` are those of aiohttp. For code on the
    event loop, which limits the time: cancelling a request closes its connection, also during a DNS lookup."""
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=tls(settings.CA_BUNDLE),
        resolver=_Resolver(),
        socket_factory=partial(_checked_socket, policy),
        keepalive_timeout=IDLE_S,
    )
    options = {"timeout": aiohttp.ClientTimeout(), "auto_decompress": False, **options}
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), **options)
    # aiohttp has no public option for these two; tests fail if they change.
    connector._factory = cast(Any, partial(_Protocol, asyncio.get_running_loop()))
    # Or a GET that failed on a reused connection would be sent again.
    session._retry_connection = False
    return session


@lru_cache(maxsize=4)
def tls(ca_bundle: str) -> ssl.SSLContext:
    """Reading the certificate authorities takes milliseconds."""
    return ssl.create_default_context(cafile=ca_bundle or certifi.where())


class _Protocol(ResponseHandler):
    """Limits the informational responses (1xx) and the bytes before a final status, and closes the connection beyond.

    aiohttp reads such responses without a limit, also on an idle connection, and a stream of them leaves the event loop
    little time for other calls.
    """

    _responses = _head_bytes = 0

    def set_response_params(self, **options: Any) -> None:
        """aiohttp calls it before each request."""
        self._responses = self._head_bytes = 0
        super().set_response_params(**options)

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        """aiohttp calls it for each response, informational or final."""
        self._responses += 1
        if self._responses <= MAX_INFORMATIONAL + 1:
            super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        # aiohttp parses all that it is given before it returns, so it is given little at a time, except of a body.
        while True:
            in_body = self._payload is not None and not self._payload.is_eof()
            part = data if in_body else data[:_PART_BYTES]
            self._head_bytes += 0 if in_body else len(part)
            super().data_received(part)
            if self._responses > MAX_INFORMATIONAL + 1 or self._head_bytes > MAX_HEAD_BYTES:
                self.set_exception(BadResponse("the server sent too much before the status of its answer"))
                if self.transport is not None:
                    self.transport.abort()
            data = data[len(part) :]
            if not data or self.exception() is not None:
                return


class _Resolver(AbstractResolver):
    """The system's resolver, in a daemon thread: asyncio's own threads delay the end of the process."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await loop.run_in_thread(lambda: socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM))
        addresses = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found)
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)
            for family, address in addresses
        ]

    async def close(self) -> None:
        pass


def _checked_socket(policy: AddressPolicy, address_info: Any) -> socket.socket:
    """A socket for one address. Raises AddressNotAllowed."""
    family, kind, protocol, _, address = address_info
    require_allowed(str(address[0]), policy)
    return socket.socket(family, kind, protocol)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Retry-After: seconds or a date (RFC 9110, section 10.2.3), one day at most. None: there is none that can be
    read."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER_S)
    try:
        wait_s = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return min(max(0.0, wait_s), MAX_RETRY_AFTER_S)


# --- Commands and threads -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Response:
    """`length`: of the body, if the server says so. `chunks`: the body as it is sent, which can be read once. Raises
    RequestFailed."""

    status: int
    headers: Mapping[str, str]
    length: int | None
    chunks: Iterator[bytes]


class Session:
    """Requests of `url` and what it redirects to, each at most `timeout_s` long, however slowly bytes arrive.

    Plain HTTP is allowed only if `url` is HTTP. Use it in a `with` block, in code that is not on the event loop.
    """

    def __init__(self, url: str, policy: AddressPolicy, *, timeout_s: float) -> None:
        self._policy, self._timeout_s = policy, timeout_s
        self._https_only = urlsplit(url).scheme == "https"

    def __enter__(self) -> Self:
        self._session = loop.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        loop.run(self._session.close())

    @contextmanager
    def request(self, method: str, url: str, **options: Any) -> Iterator[Response]:
        """The response, whose body is read in the block; `options` are those of aiohttp. Redirects are not followed
        unless `allow_redirects`. Raises RequestFailed."""
        options = {"allow_redirects": False, "max_redirects": MAX_REDIRECTS + 1, **options}
        response = self._run(lambda: self._session.request(method, url, **options))
        try:
            yield Response(response.status, response.headers, response.content_length, self._chunks(response))
        finally:
            self._run(lambda: _close(response))

    async def _open(self) -> aiohttp.ClientSession:
        sock_connect = min(CONNECT_TIMEOUT_S, self._timeout_s)
        timeout = aiohttp.ClientTimeout(self._timeout_s, sock_connect=sock_connect, sock_read=READ_TIMEOUT_S)
        limits = {"max_line_size": MAX_HEAD_BYTES, "max_field_size": MAX_HEAD_BYTES}  # websites send long headers
        return open_session(self._policy, timeout=timeout, middlewares=(self._require_scheme,), **limits)

    async def _require_scheme(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """A middleware: aiohttp calls it for the request and each redirect."""
        if self._https_only and request.url.scheme != "https":
            raise RequestFailed("the server, or a redirect, has an address that is not allowed")
        return await send(request)

    def _chunks(self, response: aiohttp.ClientResponse) -> Iterator[bytes]:
        while chunk := self._run(lambda: response.content.read(_CHUNK_BYTES)):
            yield chunk

    def _run(self, call: Callable[[], Awaitable[T]]) -> T:
        async def limited() -> T:
            try:
                return await call()
            except (aiohttp.ClientError, OSError, ValueError) as error:
                if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ServerTimeoutError):
                    raise RequestFailed(f"the response did not arrive within {self._timeout_s:,g} s") from None
                raise failure(error) from None

        return loop.run(limited())


async def _close(response: aiohttp.ClientResponse) -> None:
    response.close()


# At DEBUG these log whole URLs.
logging.getLogger("aiohttp").setLevel(logging.WARNING)
