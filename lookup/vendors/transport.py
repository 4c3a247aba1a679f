"""One HTTP exchange with a vendor, by the sessions of core.http.

- What may have reached the vendor is never sent again, because it may be billed.
- A body is read up to a limit that counts after decompression.

The caller limits the time: cancelling `Client.send` closes the connection.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from django.conf import settings
from yarl import URL

from core import http
from core.addresses import AddressPolicy


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
        http.tls(settings.CA_BUNDLE)  # reads the certificate authorities now
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
            raise http.failure(error) from None

    async def close(self) -> None:
        """Close the connections. Calls in flight fail."""
        if session := self._session:
            self._session = None
            await session.close()

    async def _exchange(self, request: Request, max_body_bytes: int) -> Reply:
        session = self._session = self._session or http.open_session(self.address_policy, auto_decompress=True)
        self._calls[session] += 1
        try:
            url = URL(request.url, encoded=True)
            async with session.request(
                request.method, url, headers=request.headers, data=request.body, allow_redirects=False
            ) as response:
                return Reply(response.status, response.headers, await _read(response, max_body_bytes))
        except http.BadResponse:
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
            raise http.BadResponse(f"its answer is larger than {max_bytes} bytes")
    return bytes(body)
