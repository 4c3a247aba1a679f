"""Searches by the API, one after the other, with retries."""

import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from core import http
from core.api_client import MAX_WAIT_S, Client, Refused, Response
from core.hashing import keyed_hash

#: Before each retry of a search, unless the service says how long to wait.
RETRY_WAITS_S = (1.0, 2.0, 4.0)
TIMEOUT_S = 10.0
#: The service, or all sources, are down: the next searches would fail too.
MAX_FAILED_IN_TURN = 5
#: Of the header `RateLimit-Policy`.
_POLICY = re.compile(r'"token";q=([0-9]{1,9});w=([0-9]{1,9})')
_RETRIED = (429, 500, 502, 503, 504)
_REFUSED = {
    401: "The service refused the token: it is wrong, expired or revoked.",
    403: "The token has no credits left: top it up.",
}


class SearchFailed(Exception):
    """This search and its retries failed; others may succeed. The message says why, without the number."""


class SearchClient(Client):
    def search(self, number: str, *, key: str) -> dict[str, Any]:
        """The answer's body, for one credit at most; for none if `key`, the Idempotency-Key, has paid for it in the
        last 24 hours. Raises SearchFailed and Refused."""
        for default_wait_s in (*RETRY_WAITS_S, None):
            wait_s = default_wait_s
            try:
                response = self.post(number, key=key)
            except http.RequestFailed as error:
                problem = str(error)
            else:
                if response.status == 200:
                    return response.answer()
                problem = f"HTTP {response.status}"
                if response.status == 400:
                    break
                if response.status not in _RETRIED:
                    raise _refused(response)
                if wait_s and (named_s := http.retry_after_s(response.headers)) is not None:
                    if named_s > MAX_WAIT_S:
                        raise Refused("The service asks to wait for more than an hour: try again later.")
                    wait_s = max(1.0, named_s)
                if wait_s and response.status == 429:
                    self.on_wait(wait_s)
            time.sleep(wait_s or 0)
        raise SearchFailed(problem)

    def rate_limit(self) -> tuple[int, int]:
        """How many requests the token may make in a window, and the window in seconds: by a request that costs nothing,
        because it has no number. Raises Refused."""
        try:
            response = self.post("")
        except http.RequestFailed as error:
            raise Refused(f"The service did not answer: {error}.") from None
        if not (policy := _POLICY.search(response.headers.get("RateLimit-Policy", ""))):
            raise _refused(response)
        return int(policy[1]), int(policy[2])


def search_each(
    client: SearchClient, run: str, numbers: Iterable[str], on_result: Callable[[str, dict[str, Any] | None], object]
) -> str:
    """Search the numbers. `on_result`: called with each number and the answer's body, None if the search failed. `run`:
    repeated with the same one, what an interrupted run has paid for is not paid for again.

    Returns why it stopped early, if it did.
    """
    failed_in_turn = 0
    try:
        for number in numbers:
            try:
                on_result(number, client.search(number, key=keyed_hash("lookup_file", f"{run}:{number}").hex()))
                failed_in_turn = 0
            except SearchFailed as error:
                on_result(number, None)
                failed_in_turn += 1
                if failed_in_turn == MAX_FAILED_IN_TURN:
                    return f"{failed_in_turn} searches in turn failed: {error}."
    except Refused as error:
        return str(error)
    except KeyboardInterrupt:
        return "Interrupted."
    return ""


def _refused(response: Response) -> Refused:
    return Refused(_REFUSED.get(response.status, f"The service answered with HTTP {response.status}: check the URL."))
