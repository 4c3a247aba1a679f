"""The two clients. `_Core` has everything but how a caller waits: requests, classification, time limits and retries."""

import asyncio
import concurrent.futures
import contextlib
import email.utils
import http.client
import json
import math
import os
import random
import re
import ssl
import threading
import time
import unicodedata
import uuid
import weakref
import zlib
from typing import Self

import httpx2

from . import _errors as errors
from ._types import SearchResponse, SearchResult, read_fields
from ._version import __version__

#: Before the first retry without `Retry-After`, and at most: the wait doubles, less up to a half of it at random.
RETRY_WAIT_S, MAX_RETRY_WAIT_S = 0.2, 1.0
#: Of responses that may count towards the token's rate limit; the statuses are those of proxies and of overload.
MAX_ANSWERS, NO_ANSWER = 3, {None, 502, 503, 504}
#: Of a response's body. The service's own have less than 2 KiB.
MAX_BODY_BYTES = 65_536
#: Any other status has the class of its hundred.
ERRORS = {401: errors.InvalidToken, 403: errors.NoCredits, 429: errors.RateLimited, 503: errors.Overloaded}
REQUEST_ID = "[A-Za-z0-9._-]{1,64}"
#: A JWT, with what a file adds around it, such as a newline or a byte order mark.
JWT = r"[\s\ufeff]*([A-Za-z0-9._~+/=-]+)[\s\ufeff]*"
#: Categories of Unicode: spaces, line breaks, control and invisible characters, dashes.
SEPARATORS = {"Zs", "Zl", "Zp", "Cc", "Cf", "Pd"}
HTTP_DATE = "[A-Z][a-z]{2,8}, .{1,40} GMT"


class _Core:
    def __init__(
        self,
        base_url: str,
        token: str,
        *,
        attempts: int = 10,
        attempt_timeout_s: float = 2.0,
        total_timeout_s: float = 4.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Connects at the first search. Raises ValueError for an argument that cannot be right.

        `base_url`: the service's, such as `https://callerid.example.org`. `token`: a JWT from its operator.
        `attempts`: at most so many, each of at most `attempt_timeout_s` seconds, and of at most `total_timeout_s`
        together with the waits between them, which grow. The third error that the service itself answers is the last
        attempt. `ssl_context`: to verify the service by, instead of the
        system's certificates.
        """
        found = re.fullmatch(JWT, token) if isinstance(token, str) else None
        self._token = found[1] if found else ""
        del token, found  # error reports that include local variables, such as Sentry's, must not have it
        self._url = _endpoint(base_url)
        if not self._token:
            raise ValueError("token must be a string such as eyJ….eyJ….…, without other characters within it")
        if attempts < 1 or not all(0 < limit < math.inf for limit in (attempt_timeout_s, total_timeout_s)):
            raise ValueError("attempts must be at least 1, and time limits finite numbers of seconds above 0")
        self._attempts = attempts
        self._attempt_timeout_s = attempt_timeout_s
        self._total_timeout_s = total_timeout_s
        self._ssl_context = ssl_context
        self._connections = self._connect()

    def _connect(self) -> httpx2.AsyncClient:
        # Its own time limits are for each wait for data, so `_attempt` has one for everything. It follows no redirect.
        return httpx2.AsyncClient(timeout=None, verify=self._ssl_context or True)

    async def _search(self, number: str, idempotency_key: str | None, request_id: str | None) -> SearchResult:
        deadline = time.monotonic() + self._total_timeout_s
        number = _digits(number)
        # One key for all attempts: no attempt is charged twice.
        request = self._request(number, str(uuid.uuid4()) if idempotency_key is None else idempotency_key, request_id)
        attempt, answers = 1, 0
        while True:
            timeout_s = min(self._attempt_timeout_s, deadline - time.monotonic())
            try:
                answer = self._classify(number, *await self._attempt(request, timeout_s))
                if isinstance(answer, SearchResult):
                    return answer
                raise answer
            except errors.CallerIdError as error:
                wait_s = _wait_s(error, attempt)
                answers += error.status not in NO_ANSWER
                is_last = attempt == self._attempts or answers == MAX_ANSWERS
                if wait_s is None or is_last or time.monotonic() + wait_s >= deadline:
                    raise
            attempt += 1
            await asyncio.sleep(wait_s)

    def _request(self, number: str, idempotency_key: str, request_id: str | None) -> httpx2.Request:
        if not re.fullmatch("[!-~]{1,255}", idempotency_key):
            raise ValueError("idempotency_key must be 1 to 255 visible ASCII characters")
        headers = {
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
            "User-Agent": f"callerid-client-python/{__version__}",
        }
        if request_id is not None:
            if not re.fullmatch(REQUEST_ID, request_id):
                raise ValueError("request_id must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
            headers["X-Request-ID"] = request_id
        query = json.dumps(number)  # on its own: the frames of its TypeError must not have the token
        content = f'{{"api_key": {json.dumps(self._token)}, "query": {query}}}'
        return httpx2.Request("POST", self._url, headers=headers, content=content)

    async def _attempt(self, request: httpx2.Request, timeout_s: float) -> tuple[httpx2.Response, bytes]:
        """The response and its body, which is empty if it is too large. Raises Unreachable."""
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._connections.send(request, stream=True)
                async with contextlib.aclosing(response):
                    body = b""
                    async for chunk in response.aiter_raw():
                        body += chunk
                        if len(body) > MAX_BODY_BYTES:
                            return response, b""
                    return response, _decoded(body, response.headers.get("Content-Encoding", ""))
        except TimeoutError:
            raise errors.Unreachable("No response in time") from None
        except (httpx2.RequestError, OSError) as error:
            raise errors.Unreachable(f"No response: {type(error).__name__}") from error

    def _reveals(self, text: str, number: str) -> bool:
        """Whether the text has the token or the number. The service echoes neither, but another server might."""
        return any(len(secret) >= 7 and secret in text for secret in (self._token, str(number)))

    def _classify(self, number: str, response: httpx2.Response, body: bytes) -> SearchResult | errors.CallerIdError:
        """The result, or the error that the response stands for.

        The caller raises the error, so that its traceback has no frame with a body that echoes the token.
        """
        status, headers = response.status_code, response.headers
        text = headers.get("X-Request-ID", "")
        request_id = text if re.fullmatch(REQUEST_ID, text) and not self._reveals(text, number) else None
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        if status == 200:
            try:
                known = read_fields(SearchResponse, document)
            except ValueError as error:
                return errors.InvalidAnswer(f"Not a search response: {error}", status, request_id)
            remaining = re.search(";r=([0-9]{1,9})", headers.get("RateLimit", ""))
            return SearchResult(
                **known,
                request_id=request_id,
                rate_limit_remaining=int(remaining[1]) if remaining else None,
                replayed=headers.get("Idempotent-Replayed") == "true",
                outcomes=dict(re.findall('(source_[ab]);desc="([a-z-]+)"', headers.get("Server-Timing", ""))),
            )
        said = document.get("detail") if isinstance(document, dict) else None
        detail = http.client.responses.get(status, "Unknown status")
        if isinstance(said, str):
            detail = detail if self._reveals(said, number) else said
        elif status in (401, 403):  # about the login or the rules of a proxy, not about token and credits
            return errors.InvalidAnswer(f"{detail}, not from the service", status, request_id)
        retry_after = _retry_after(headers) if status in (429, 503) else None
        of_hundred = {4: errors.InvalidRequest, 5: errors.ServiceFailed}.get(status // 100, errors.InvalidAnswer)
        return ERRORS.get(status, of_hundred)(detail, status, request_id, retry_after)


def _endpoint(base_url: str) -> httpx2.URL:
    with contextlib.suppress(httpx2.InvalidURL):
        url = httpx2.URL(base_url.rstrip("/") + "/callerid/search")
        is_complete = url.scheme in ("http", "https") and url.host and (url.port or 0) < 65536
        if is_complete and not re.search(r"[?#@\s\\]", base_url):
            return url
    raise ValueError("base_url must be like https://callerid.example.org, without user, query and fragment")


def _digits(number: str) -> str:
    """`number` without its plus and what people write between digits. Raises ValueError if it is no string.

    What makes another number of it stays, and the service refuses it: the zero of `+49 (0)30 …`, a spreadsheet's `.0`.
    """
    if not isinstance(number, str):
        raise ValueError("number must be a string")
    if re.search(r"\(\s*0\s*\)|^\+?[0-9]+\.[0-9]{1,2}$", number):
        return number
    kept = (c for c in number if c not in ".()\u2212" and unicodedata.category(c) not in SEPARATORS)
    return re.sub("^[+\uff0b]", "", "".join(kept))


def _decoded(body: bytes, encoding: str) -> bytes:
    """A body that a proxy compressed, though no client asked for it; empty if it is too large."""
    if encoding.lower() in ("gzip", "x-gzip", "deflate"):
        with contextlib.suppress(zlib.error):
            body = zlib.decompressobj(wbits=47).decompress(body, MAX_BODY_BYTES + 1)
    return body if len(body) <= MAX_BODY_BYTES else b""


def _retry_after(headers: httpx2.Headers) -> int:
    """Seconds; a date is compared with the response's own, because clocks differ. 1 if there is neither."""
    text = headers.get("Retry-After", "")
    if re.fullmatch("[0-9]{1,9}", text):
        return int(text)
    until, now = (
        email.utils.parsedate_tz(date) if re.fullmatch(HTTP_DATE, date) else None
        for date in (text, headers.get("Date", ""))
    )
    with contextlib.suppress(ValueError, OverflowError):  # the 99th of a month
        if until:
            wait_s = email.utils.mktime_tz(until) - (email.utils.mktime_tz(now) if now else time.time())
            return max(math.ceil(wait_s), 1)
    return 1


def _wait_s(error: errors.CallerIdError, attempt: int) -> float | None:
    """Seconds before the next attempt; None: there is none, for its response would be the same."""
    is_temporary = isinstance(error, errors.ServiceFailed | errors.Unreachable) or error.status == 200
    if error.retry_after is None and not is_temporary:
        return None
    longest_s = min(RETRY_WAIT_S * 2 ** min(attempt - 1, 10), MAX_RETRY_WAIT_S)
    return max(error.retry_after or 0, random.uniform(longest_s / 2, longest_s))  # noqa: S311


class AsyncClient(_Core):
    """Searches on an asyncio event loop, and keeps connections open between searches. Use each client on one loop.

    It is an asynchronous context manager; otherwise call `aclose`.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    async def search(
        self, number: str, *, idempotency_key: str | None = None, request_id: str | None = None
    ) -> SearchResult:
        """Who `number` is: country code and number. A plus, and what people write between digits, is left out.

        `idempotency_key`: 1 to 255 visible ASCII characters, such as the call's id. A search with the key and number of
        one within 24 hours gets the same answer, and is not charged again. By default each search has a new one.
        `request_id`: 1 to 64 characters of `A-Z a-z 0-9 . _ -` by which to find the request in the operator's log.

        Raises a subclass of CallerIdError after the last attempt, ValueError for an invalid argument, and RuntimeError
        on another event loop than that of the first search, where its connections could not be used.
        """
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise RuntimeError("An AsyncClient belongs to the event loop of its first search: make one for each loop")
        self._loop = loop
        return await self._search(number, idempotency_key, request_id)

    async def aclose(self) -> None:
        """Close the connections. Searches raise RuntimeError afterwards."""
        await self._connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class Client(_Core):
    """Searches, and keeps connections open between searches. Threads may share a client.

    A thread of its own sends the requests, so that a time limit holds for a whole attempt: for name resolution, and for
    a server that sends one byte at a time. It is a context manager; otherwise call `close`.
    """

    _lock = threading.Lock()  # of all clients, so that `_renew_lock` reaches it
    _loop: asyncio.AbstractEventLoop | None = None
    _pid = 0
    _is_closed = False
    _searches: set[concurrent.futures.Future[SearchResult]]  # in progress, on `_loop`

    def search(self, number: str, *, idempotency_key: str | None = None, request_id: str | None = None) -> SearchResult:
        """Who `number` is: country code and number. Arguments and errors as of `AsyncClient.search`."""
        with self._lock:  # so that `close`, which comes before or after, refuses or cancels it
            loop = self._running_loop()
            future = asyncio.run_coroutine_threadsafe(self._search(number, idempotency_key, request_id), loop)
            self._searches.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RuntimeError("The client has been closed") from None
        finally:
            future.cancel()  # when Ctrl-C has ended the wait
            self._searches.discard(future)

    def close(self) -> None:
        """Close the connections. Searches raise RuntimeError afterwards, those in progress too."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if self._loop is not None and self._pid == os.getpid() and not was_closed:
            for search in self._searches.copy():
                search.cancel()
            asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
            self._stop()

    async def _finish(self) -> None:
        # `close` has cancelled the searches, and these cancel the tasks that they started.
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        await self._connections.aclose()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this process, started if necessary. Raises RuntimeError after `close`. The caller has `_lock`."""
        if self._is_closed:
            raise RuntimeError("The client has been closed")
        if self._loop is None or self._pid != os.getpid():
            if self._loop is not None:  # a fork shares the connections, and has not the thread
                self._connections = self._connect()
            self._pid, self._loop, self._searches = os.getpid(), asyncio.new_event_loop(), set()
            threading.Thread(target=_run, args=(self._loop,), name="callerid-client", daemon=True).start()
            self._stop = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        return self._loop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.closing(loop):
        loop.run_forever()


def _renew_lock() -> None:
    """In the child of a fork: a thread that held the lock does not exist there, and would never release it."""
    Client._lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)
