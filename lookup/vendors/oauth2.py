"""Access tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4), one at a time for all calls of a process."""

import asyncio
import json
import re
import time
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from aiohttp import encode_basic_auth

from core.http import BadResponse, RequestFailed
from lookup.vendors import transport
from lookup.vendors.authentication import OAuth2

MAX_BODY_BYTES = 64 * 1024
#: A token is not used in the last seconds before it expires: the vendor's clock may differ, and calls take time.
MARGIN_S = 30.0
#: Lifetime of a token whose response does not say it (RFC 6749, section 5.1).
DEFAULT_LIFETIME_S = 300.0
#: The errors of RFC 6749, section 5.2: what a hint may repeat.
_ERRORS = {
    *("invalid_request", "invalid_client", "invalid_grant"),
    *("unauthorized_client", "unsupported_grant_type", "invalid_scope"),
}


class Refused(Exception):
    """The server gives no token for these credentials. The message is for operators."""


class Tokens:
    """Gets a token when the first call needs one, shortly before it expires, and after the vendor has rejected it. All
    methods run on the event loop."""

    def __init__(self, auth: OAuth2, client: transport.Client, *, url: str, client_id: str, secret: str) -> None:
        self._auth, self._client, self._url = auth, client, url
        self._credentials = client_id, secret
        self._one_request = asyncio.Lock()
        self._token = ""
        self._expires_at = 0.0

    async def get(self, *, rejected: str = "") -> str:
        """A token that is not the `rejected` one. Raises Refused and core.http.RequestFailed."""
        async with self._one_request:
            if self._token in ("", rejected) or time.monotonic() >= self._expires_at:
                self._token = ""
                reply = await self._client.send(self._request(), max_body_bytes=MAX_BODY_BYTES)
                self._token, lifetime_s = self._read(reply)
                self._expires_at = time.monotonic() + lifetime_s - min(MARGIN_S, lifetime_s / 2)
            return self._token

    async def close(self) -> None:
        await self._client.close()

    def _request(self) -> transport.Request:
        client_id, secret = self._credentials
        form = {"grant_type": "client_credentials", **self._auth.params}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self._auth.in_form:
            form |= {"client_id": client_id, "client_secret": secret}
        else:  # encoded first, by RFC 6749, section 2.3.1
            headers["Authorization"] = encode_basic_auth(quote(client_id, safe=""), quote(secret, safe=""))
        return transport.Request("POST", self._url, headers, urlencode(form).encode())

    def _read(self, reply: transport.Reply) -> tuple[str, float]:
        """The token, and its lifetime in seconds. Raises Refused and core.http.BadResponse."""
        try:
            document: Any = json.loads(reply.body)
        except ValueError:
            document = None
        document = document if isinstance(document, dict) else {}
        if reply.status in (400, 401, 403):
            error = document.get("error")
            raise Refused(f"{urlsplit(self._url).netloc}: {reply.status}{f' {error}' if str(error) in _ERRORS else ''}")
        if reply.status == 429 or reply.status >= 500:
            raise RequestFailed(f"its token server answers {reply.status}")
        token, is_bearer = str(document.get("access_token", "")), str(document.get("token_type")).lower() == "bearer"
        if reply.status != 200 or not is_bearer or not re.fullmatch(r"[!-~]+", token):
            raise BadResponse(f"its token server answers {reply.status} without a bearer token")
        try:
            return token, max(0.0, float(document.get("expires_in", DEFAULT_LIFETIME_S)))
        except (TypeError, ValueError, OverflowError):
            return token, DEFAULT_LIFETIME_S
