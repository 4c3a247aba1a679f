"""One HTTP exchange with a vendor: aiohttp, with its environment, cookies, redirects and resending switched off.

- Every address is checked before it is connected to, whether DNS returned it or the URL has it (SSRF).
- What may have reached the vendor is never sent again, because it may be billed.
- A body is read up to a limit that counts after decompression; so is what precedes a reply's status.

The caller limits the time: cancelling `Client.send` closes the connection, also during a DNS lookup.
"""

import asyncio
import base64
import json
import logging
import socket
import ssl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from django.conf import settings
from multidict import CIMultiDict
from yarl import URL

from core import loop
from core.addresses import AddressNotAllowed, AddressPolicy, require_allowed

# A connection that was idle for longer is opened anew: a firewall in between may have dropped it silently.
IDLE_S = 30.0
# Before a reply's final status. A vendor needs one or two informational responses (RFC 9110, section 15.2).
MAX_INFORMATIONAL = 16
MAX_HEAD_BYTES = 64 * 1024
_PART_BYTES = 4096

_PRINTABLE = frozenset(map(chr, range(0x20, 0x7F)))


class NoReply(Exception):
    """The vendor was not reached, or closed the connection. The message is for operators: no address, key or number."""


class BadReply(Exception):
    """The reply must not be read. The message is for operators, as above."""


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
    """One vendor's connections. All methods run on the event loop."""

    def __init__(self, address_policy: AddressPolicy) -> None:
        self.address_policy = address_policy
        # Reads the certificate authorities now: it takes milliseconds.
        self._tls = _tls(settings.CA_BUNDLE)
        self._session: _Session | None = None

    async def send(self, request: Request, *, max_body_bytes: int) -> Reply:
        """Return the vendor's reply. Tries to connect a second time if no connection could be made.

        Raises NoReply and BadReply.
        """
        try:
            try:
                return await self._exchange(request, max_body_bytes)
            except aiohttp.ClientConnectorError as error:
                if isinstance(error, aiohttp.ClientConnectorDNSError | aiohttp.ClientSSLError):
                    raise
                return await self._exchange(request, max_body_bytes)
        except (aiohttp.ClientError, OSError, zlib.error) as error:
            raise NoReply(_problem(error)) from None

    async def close(self) -> None:
        """Close the connections. Calls in flight fail."""
        if session := self._session:
            self._session = None
            await session.http.close()

    async def _exchange(self, request: Request, max_body_bytes: int) -> Reply:
        headers, data = _prepared(request)
        url = URL(request.url, encoded=True)
        session = self._session = self._session or _Session(self._open())
        session.calls += 1
        try:
            async with session.http.request(
                request.method, url, headers=headers, data=data, allow_redirects=False
            ) as response:
                return Reply(response.status, response.headers, await _read(response, max_body_bytes))
        except BadReply:
            raise
        except BaseException:
            # Connections from before may be dead without notice (a load balancer failed over, a NAT entry expired), and
            # would fail one by one: the next call opens a new one.
            if self._session is session:
                self._session = None
            raise
        finally:
            session.calls -= 1
            if session is not self._session and not session.calls:
                await session.http.close()

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # the guard limits calls
            ssl=self._tls,
            resolver=_Resolver(),
            socket_factory=partial(_checked_socket, self.address_policy),
            keepalive_timeout=IDLE_S,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # it has no limit
            timeout=aiohttp.ClientTimeout(),
        )
        # aiohttp has no public option for these two; tests fail if they change.
        connector._factory = cast(Any, partial(_Protocol, asyncio.get_running_loop()))
        # Or a GET that failed on a reused connection would be sent again.
        session._retry_connection = False
        return session


class _Protocol(ResponseHandler):
    """Limits the informational responses (1xx) and the bytes before a final status, and closes the connection beyond.

    aiohttp reads such responses without a limit, also on an idle connection, and a stream of them leaves the event loop
    little time for other calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._responses = self._bytes_outside = 0
        self._body: aiohttp.StreamReader | None = None

    def set_response_params(self, **options: Any) -> None:
        """aiohttp calls it before each request."""
        self._responses = self._bytes_outside = 0
        self._body = None
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        # aiohttp parses all that it is given before it returns, so it is given little at a time, except of a body.
        while len(data) > _PART_BYTES and not self._in_body():
            self._receive(data[:_PART_BYTES])
            data = data[_PART_BYTES:]
            if self.exception() is not None:
                return
        self._receive(data)

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        """aiohttp calls it for each response, informational or final."""
        self._responses += 1
        if not 100 <= data[0].code <= 199:
            self._body = data[1]
        if self._responses <= MAX_INFORMATIONAL + 1:
            super().feed_data(data, size)

    def _receive(self, data: bytes) -> None:
        if not self._in_body():
            self._bytes_outside += len(data)
        super().data_received(data)
        if self._responses > MAX_INFORMATIONAL + 1 or self._bytes_outside > MAX_HEAD_BYTES:
            self.set_exception(BadReply("it sent too much before the status of its answer"))
            if self.transport is not None:
                self.transport.abort()

    def _in_body(self) -> bool:
        return self._body is not None and not self._body.is_eof()


@dataclass(slots=True, eq=False)
class _Session:
    http: aiohttp.ClientSession
    calls: int = 0


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


def require_sendable(request: Request) -> None:
    """Raises ValueError for a URL or header that must not be sent to any vendor."""
    headers, _ = _prepared(request)
    if any(not _PRINTABLE.issuperset(name + value) for name, value in headers.items()):
        raise ValueError("a header has a character that is not printable ASCII")
    if not URL(request.url, encoded=True).host:
        raise ValueError("its URL has no host")


def _prepared(request: Request) -> tuple[CIMultiDict[str], bytes | None]:
    """Headers and body. A header that is given twice, in other case, has its last value."""
    headers = CIMultiDict({"Accept-Encoding": "gzip"})  # aiohttp's own depends on what is installed
    data = None
    if request.json is not None:
        headers["Content-Type"], data = "application/json", json.dumps(request.json).encode()
    elif request.form:
        headers["Content-Type"], data = "application/x-www-form-urlencoded", urlencode(request.form).encode()
    for name, value in request.headers.items():
        headers[name] = value
    if request.basic:
        headers["Authorization"] = f"Basic {base64.b64encode(':'.join(request.basic).encode()).decode()}"
    return headers, data


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body, decompressed. Raises BadReply if it is longer than `max_bytes`, and zlib.error."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", ""):
        raise BadReply("its answer has a Content-Encoding that was not asked for")
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    body = bytearray()
    while chunk := await response.content.readany():
        if unpack is None:
            body += chunk
        elif not unpack.eof:  # what follows the end is ignored: `unpack` would keep it
            body += unpack.decompress(chunk, max_bytes + 1 - len(body))
        if len(body) > max_bytes:
            raise BadReply(f"its answer is larger than {max_bytes} bytes")
    if unpack and body and not unpack.eof:
        raise zlib.error("incomplete")
    return bytes(body)


def _problem(error: BaseException) -> str:
    if isinstance(getattr(error, "os_error", None), AddressNotAllowed):
        return "its host has an address that is not allowed; see private_network"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "its TLS certificate or handshake was rejected"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "it could not be reached"
    return "it closed the connection or did not answer with HTTP"


@lru_cache(maxsize=4)
def _tls(ca_bundle: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_bundle or certifi.where())


# At DEBUG these log whole URLs.
logging.getLogger("aiohttp").setLevel(logging.WARNING)
