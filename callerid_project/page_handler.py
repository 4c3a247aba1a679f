"""Runs Django's pages in a few threads beside the event loop: the console, customers' pages, docs, static files.

A thread is held while a page computes, or the next chunk of a streamed response, and never by a client: the event loop
sends. What a response holds, such as an open file, is released when it was sent, when the client has left, or when the
client is disconnected because it does not read (callerid_project.http_protocol, serve.py).
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, TypeVar

from django.core.handlers.base import BaseHandler
from django.core.signals import request_started
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase

from callerid_project import middleware
from core import metrics

log = logging.getLogger(__name__)
T = TypeVar("T")

PAGE_THREADS = 4
#: How many of them downloads may use at once: pages are computed beside any number of downloads.
DOWNLOAD_THREADS = 2
#: Of pages that compute or wait for a thread: one more gets 503. The shipped proxies admit fewer of one address.
MAX_PAGES = 128
#: Pages count as not answered while one has waited for a thread for so long.
STALLED_S = 30.0
#: Of a response, sent at once.
_CHUNK_BYTES = 64 * 1024

COMPUTING = metrics.Gauge("callerid_pages_computing", "Threads that compute a page, or a chunk of a download.")
WAITING = metrics.Gauge("callerid_pages_waiting", "Pages, and chunks of downloads, that wait for a thread.")
LONGEST_WAIT = metrics.Gauge("callerid_pages_longest_wait_seconds", "How long the first of them has waited.")


class PageHandler(BaseHandler):
    """As Django's WSGIHandler, on an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware()
        self._threads = ThreadPoolExecutor(PAGE_THREADS, thread_name_prefix="page")
        self._free = asyncio.Semaphore(PAGE_THREADS)
        self._free_for_downloads = asyncio.Semaphore(DOWNLOAD_THREADS)
        self._computing = 0
        #: When each that waits for a thread began to (time.monotonic), oldest first.
        self._waiting: dict[object, float] = {}
        #: Pages that have no response yet.
        self._open = 0
        self._was_stalled = False
        metrics.sampler(self.sample)

    @property
    def is_full(self) -> bool:
        return self._open >= MAX_PAGES

    @property
    def longest_wait_s(self) -> float:
        now = time.monotonic()
        return now - min(list(self._waiting.values()), default=now)

    def problem(self) -> str | None:
        """One sentence for /readyz."""
        return "Pages are not answered: all their threads are in use" if self.longest_wait_s >= STALLED_S else None

    async def respond(self, request: HttpRequest, scope: Any, receive: Any, send: Any) -> bool:
        """Compute the page and send it, unless the client has left. False if the server stops before there is one."""
        client = asyncio.ensure_future(_disconnected(receive))
        self._open += 1
        try:
            response = await self._in_thread(lambda: self._response(request, scope), skip_if_done=client)
        except asyncio.CancelledError:
            client.cancel()
            return False
        finally:
            self._open -= 1
        try:
            if response is not None:
                await self._send(request, response, client, send)
        finally:
            client.cancel()
            if response is not None and not response.closed:
                await self._in_thread(response.close)
        return True

    def _response(self, request: HttpRequest, scope: Any) -> HttpResponseBase:
        request_started.send(sender=self.__class__, scope=scope)
        response = self.get_response(request)
        if isinstance(response, HttpResponse):
            if response.content:  # an error before Django's middleware has none, and HTTP/1.0 no chunks
                response.headers.setdefault("Content-Length", str(len(response.content)))
            response.close()  # in the thread whose database connection it used
        return response

    async def _send(
        self, request: HttpRequest, response: HttpResponseBase, client: "asyncio.Future[None]", send: Any
    ) -> None:
        chunks = self._chunks(request, response, client)
        chunk: bytes | None = await anext(chunks, b"")
        cookies = [(b"set-cookie", cookie.OutputString().encode()) for cookie in response.cookies.values()]
        headers = [*middleware.encoded(response), *cookies]
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        while chunk is not None:
            # The last one is known to be the last before it is sent: a client that has it may send its next request.
            following = await anext(chunks, None)
            await send({"type": "http.response.body", "body": chunk, "more_body": following is not None})
            chunk = following

    async def _chunks(
        self, request: HttpRequest, response: HttpResponseBase, client: "asyncio.Future[None]"
    ) -> AsyncIterator[bytes]:
        """The body, as long as the client is there."""
        if isinstance(response, HttpResponse):
            yield response.content
        elif request.method != "HEAD":
            content = iter(response)
            while chunk := await self._next_chunk(content, client, is_file=isinstance(response, FileResponse)):
                yield chunk

    async def _next_chunk(
        self, content: Iterator[bytes], client: "asyncio.Future[None]", *, is_file: bool
    ) -> bytes | None:
        async with nullcontext() if is_file else self._free_for_downloads:
            return await self._in_thread(lambda: _next_chunk(content), skip_if_done=client)

    async def _in_thread(
        self, function: Callable[[], T], *, skip_if_done: "asyncio.Future[None] | None" = None
    ) -> T | None:
        """The result of `function`; None, and it does not run, if `skip_if_done` is done when a thread is free."""
        ticket = object()
        self._waiting[ticket] = time.monotonic()
        try:
            await self._free.acquire()
        finally:
            del self._waiting[ticket]
        self._computing += 1
        try:
            if skip_if_done is not None and skip_if_done.done():
                return None
            return await asyncio.get_running_loop().run_in_executor(self._threads, function)
        finally:
            self._computing -= 1
            self._free.release()

    def sample(self) -> None:
        COMPUTING.set(self._computing)
        WAITING.set(len(self._waiting))
        LONGEST_WAIT.set(self.longest_wait_s)
        is_stalled = self.problem() is not None
        if is_stalled and not self._was_stalled:
            log.error("pages are not answered: the first that waits for a thread has waited for %.0f s", STALLED_S)
        self._was_stalled = is_stalled


async def _disconnected(receive: Any) -> None:
    """Returns when the client has left. The request's body was received."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _next_chunk(content: Iterator[bytes]) -> bytes:
    """The next parts of a response, together _CHUNK_BYTES or somewhat more; empty at the end."""
    close_old_connections()  # of this thread, which may have been idle: as Django does when a request begins
    chunk = bytearray()
    for part in content:
        chunk += part
        if len(chunk) >= _CHUNK_BYTES:
            break
    return bytes(chunk)
