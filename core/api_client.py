"""A client of the search API: one request at a time, within the token's rate limit."""

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from core import http

#: The longest wait that the service may ask for.
MAX_WAIT_S = 3600.0
_MAX_BYTES = 2**16
#: Of the header `RateLimit`.
_LEFT = re.compile(r'"token";r=([0-9]{1,9});t=([0-9]{1,9})')


class Refused(Exception):
    """The service would refuse the next searches too. The message is a sentence for people."""


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes

    def answer(self) -> dict[str, Any]:
        """The body of status 200. Raises Refused for another service's."""
        try:
            body: dict[str, Any] = json.loads(self.content)
            data = body["data"]
            data["combined"]["source_a_available"], body["credits_remaining"]
            data["source_a"].keys(), data["source_b"].keys()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise Refused("The answer is not one of this API: check the URL.") from None
        return body


class Client:
    """`url`: of the service, without the path of the API. `token`: returns the JWT, for each request when it is sent.
    `headers`: of each request. `on_wait`: called with the seconds before each wait for the rate limit."""

    def __init__(
        self,
        session: http.Session,
        url: str,
        token: Callable[[], str],
        headers: Mapping[str, str] | None = None,
        on_wait: Callable[[float], object] = lambda wait_s: None,
    ) -> None:
        self._session, self._url, self._token = session, f"{url.rstrip('/')}/callerid/search", token
        self._headers, self.on_wait = dict(headers or {}), on_wait
        #: When the rate limit admits the next request (time.monotonic).
        self._free_at = 0.0

    def post(self, query: str, *, key: str = "") -> Response:
        """One request, when the rate limit admits it. Raises http.RequestFailed."""
        if (wait_s := self._free_at - time.monotonic()) > 0:
            self.on_wait(wait_s)
            time.sleep(wait_s)
        headers = self._headers | ({"Idempotency-Key": key} if key else {})
        body = {"api_key": self._token(), "query": query}
        with self._session.request("POST", self._url, json=body, headers=headers) as response:
            content = response.raw.read(_MAX_BYTES, decode_content=True)
        left = _LEFT.search(response.headers.get("RateLimit", ""))
        next_s = min(int(left[2]), MAX_WAIT_S) if left and left[1] == "0" else 0
        self._free_at = time.monotonic() + next_s
        return Response(response.status_code, response.headers, content)
