"""One HTTP exchange with a vendor, by aiohttp; commands and threads use `requests` (core/http.py).

- Every address is checked before it is connected to, whether DNS returned it or the URL has it (SSRF).
- No proxy, .netrc or cookie is used, no redirect is followed, and certificates are verified with CA_BUNDLE.
- What may have reached the vendor is never sent again, because it may be billed.
- The body of a reply is limited, by its length after decompression.

The caller limits the time: cancelling `Client.send` closes the connection, also during a DNS lookup.
"""

import logging
import socket
import ssl
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import aiohttp
import certifi
from aiohttp.abc import AbstractResolver, ResolveResult
from django.conf import settings
from yarl import URL

from core import loop
from core.addresses import AddressNotAllowed, AddressPolicy, require_allowed
from core.http import BadResponse, RequestFailed, RequestInterrupted

# A connection that was idle for longer is opened anew: a firewall in between may have dropped it silently.
IDLE_S = 30.0
# Of one header of a reply: the policies of a vendor's website exceed aiohttp's 8 KiB.
MAX_HEADER_BYTES = 32 * 1024
# Bodies that may be larger are decompressed in a thread.
_LARGE_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """One vendor's connections. All methods run on the event loop."""

    def __init__(self, address_policy: AddressPolicy) -> None:
        self.address_policy = address_policy
        _tls(settings.CA_BUNDLE)  # reads the certificate authorities now
        self._session: aiohttp.ClientSession | None = None
        #: The number of calls in progress by session.
        self._calls: Counter[aiohttp.ClientSession] = Counter()

    async def send(self, request: Request, *, max_body_bytes: int) -> Reply:
        """Return the vendor's reply. Tries to connect a second time if no connection could be made.

        Raises RequestFailed: BadResponse where a reply arrived that must not be read.
        """
        try:
            try:
                return await self._exchange(request, max_body_bytes)
            except aiohttp.ClientConnectorError as error:
                if isinstance(error, aiohttp.ClientConnectorDNSError | aiohttp.ClientSSLError):
                    raise
                return await self._exchange(request, max_body_bytes)
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(error) from None

    async def close(self) -> None:
        """Close the connections. Calls in flight fail."""
        if session := self._session:
            self._session = None
            await session.close()

    async def _exchange(self, request: Request, max_body_bytes: int) -> Reply:
        session = self._session = self._session or _open_session(self.address_policy)
        self._calls[session] += 1
        try:
            url = URL(request.url, encoded=True)
            async with session.request(
                request.method, url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response:
                return Reply(response.status, response.headers, await _read(response, max_body_bytes))
        except BadResponse:
            raise
        except BaseException:
            # Connections from before may be dead without notice (a load balancer failed over, a NAT entry expired), and
            # would fail one by one: the next call opens a new one.
            if self._session is session:
                self._session = None
            raise
        finally:
            self._calls[session] -= 1
            if session is not self._session and not self._calls[session]:
                del self._calls[session]
                await session.close()


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """The body, decompressed. Raises BadResponse if it is longer than `max_bytes`."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    deflate = "deflate" in response.headers.get("Content-Encoding", "").lower()
    if not (deflate or body.startswith(_GZIP)):
        return bytes(body)
    unpack = partial(_unpacked, bytes(body), max_bytes, deflate=deflate)
    return await loop.run_in_thread(unpack) if max_bytes > _LARGE_BYTES else unpack()


def _too_large(max_bytes: int) -> BadResponse:
    return BadResponse(f"its answer is larger than {max_bytes} bytes")


def _unpacked(body: bytes, max_bytes: int, *, deflate: bool) -> bytes:
    """The body without gzip, or `deflate` where that is declared. The bytes decide, because proxies declare gzip that
    they have removed, call it x-gzip (RFC 9110, section 8.4.1.3), compress twice, and compress without declaring it.
    Raises BadResponse and RequestInterrupted."""
    for _ in range(2):
        if body.startswith(_GZIP):
            body = _inflated(body, max_bytes, 16 + zlib.MAX_WBITS)
        elif deflate and not _is_utf_8(body):  # with zlib's header, or without (RFC 9110, section 8.4.1.2)
            body = _inflated(body, max_bytes, zlib.MAX_WBITS if body[0] & 0x0F == 8 else -zlib.MAX_WBITS)
    return body


def _inflated(body: bytes, max_bytes: int, wbits: int) -> bytes:
    unpacked = b""
    try:
        while body:  # gzip may have several members
            stream = zlib.decompressobj(wbits)
            unpacked += stream.decompress(body, max_bytes + 1 - len(unpacked))
            if len(unpacked) > max_bytes:
                raise _too_large(max_bytes)
            if not stream.eof:
                raise RequestInterrupted("the server closed the connection within its compressed answer")
            body = stream.unused_data if stream.unused_data.startswith(_GZIP) else b""
    except zlib.error:
        raise BadResponse("its compressed answer is damaged") from None
    return unpacked


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _failure(error: BaseException) -> RequestFailed:
    """What an exception of aiohttp's means. Its own text may have the URL."""
    if isinstance(error, RequestFailed):
        return error
    if isinstance(getattr(error, "os_error", None), AddressNotAllowed):
        return RequestFailed("the server has an address that is not allowed")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return RequestFailed("the server's TLS certificate or handshake was rejected")
    if isinstance(error, ValueError):
        return RequestFailed("the request has a header that cannot be sent")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return RequestInterrupted("the server's name cannot be resolved")
    if isinstance(error, aiohttp.ClientConnectorError):
        return RequestInterrupted("the server could not be reached")
    return RequestInterrupted("the server closed the connection or did not answer with HTTP")


def _open_session(policy: AddressPolicy) -> aiohttp.ClientSession:
    """A session whose servers have addresses that `policy` allows."""
    connector = aiohttp.TCPConnector(
        limit=0,  # the guard limits calls
        ssl=_tls(settings.CA_BUNDLE),
        resolver=_Resolver(),
        socket_factory=partial(_checked_socket, policy),
        keepalive_timeout=IDLE_S,
    )
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(),
        auto_decompress=False,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )
    # Or a GET that failed on a reused connection would be sent again. aiohttp has no public option for it; a test fails
    # if it changes.
    session._retry_connection = False
    return session


class _Resolver(AbstractResolver):
    """The system's resolver, in a daemon thread for each lookup: uvloop's own runs two at once, so that two names whose
    servers hang would stop the calls to all vendors, and asyncio's threads delay the end of the process."""

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


@lru_cache(maxsize=4)
def _tls(ca_bundle: str) -> ssl.SSLContext:
    """Reading the certificate authorities takes milliseconds."""
    return ssl.create_default_context(cafile=ca_bundle or certifi.where())


def _checked_socket(policy: AddressPolicy, address_info: Any) -> socket.socket:
    """A socket for one address. Raises AddressNotAllowed."""
    family, kind, protocol, _, address = address_info
    require_allowed(str(address[0]), policy)
    return socket.socket(family, kind, protocol)


# At DEBUG it logs whole URLs.
logging.getLogger("aiohttp").setLevel(logging.WARNING)
