"""Access tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4), one at a time for all calls of a process."""

import asyncio
import json
import re
import time
from contextlib import suppress
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from aiohttp import encode_basic_auth

from core.amounts import decimal_number
from core.http import BadResponse, RequestFailed
from lookup.vendors import transport
from lookup.vendors.authentication import OAuth2

MAX_BODY_BYTES = 64 * 1024
#: A token is not used in the last seconds before it expires: the vendor's clock may differ, and calls take time.
MARGIN_S = 30.0
#: Lifetime of a token whose response does not say it (RFC 6749, section 5.1), or says what is no lifetime.
DEFAULT_LIFETIME_S = 300.0
#: Of a token that is good for less, every call would request another one.
MIN_LIFETIME_S, MAX_LIFETIME_S = 1, 10**9
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
        except (ValueError, RecursionError):
            document = None
        document = document if isinstance(document, dict) else {}
        if reply.status in (400, 401, 403):
            error = _text(document.get("error"))
            raise Refused(f"{urlsplit(self._url).netloc}: {reply.status}{f' {error}' if error in _ERRORS else ''}")
        if reply.status == 429 or reply.status >= 500:
            raise RequestFailed(f"its token server answers {reply.status}")
        token, is_bearer = _text(document.get("access_token")), _text(document.get("token_type")).lower() == "bearer"
        if reply.status != 200 or not is_bearer or not re.fullmatch(r"[!-~]+", token):
            raise BadResponse(f"its token server answers {reply.status} without a bearer token")
        return token, _lifetime_s(document.get("expires_in"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _lifetime_s(expires_in: Any) -> float:
    with suppress(ValueError):
        seconds = decimal_number(expires_in) if isinstance(expires_in, str) else expires_in
        if type(seconds) in (int, float, Decimal) and MIN_LIFETIME_S <= seconds <= MAX_LIFETIME_S:
            return float(seconds)
    return DEFAULT_LIFETIME_S
