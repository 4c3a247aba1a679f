"""The event loop on which a process calls vendors: one thread, started by the first call.

What would block the loop runs in threads (`run_in_thread`): DNS lookups, `def lookup` of connectors, large replies, and
writes to Redis. All threads are daemons: calls in flight do not delay the end of the process. (Those of
concurrent.futures would.)
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class DaemonThreads:
    """Runs functions in threads, as many as were ever needed at once. Callers limit how many that is."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Raises RuntimeError if no thread can be started; then `function` does not run."""
        future: Future[T] = Future()
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, name="vendor-worker", daemon=True).start()
        self._queue.put((function, future))
        return future

    def _work(self) -> None:
        while True:
            function, future = self._queue.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)
            del function, future  # or they would stay in memory until the next call
            self._idle.release()


class EventLoop:
    """An asyncio event loop in a thread of its own. Its clock is time.monotonic()."""

    def __init__(self) -> None:
        self.threads = DaemonThreads()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(_log_type_only)
        self._thread = threading.Thread(target=self._run, name="vendor-calls", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.loop.close()
            raise

    def _run(self) -> None:
        while True:  # a task of a connector may raise SystemExit, or stop the loop
            try:
                self.loop.run_forever()
            except BaseException as error:
                log.error("event loop of vendor calls: %s", type(error).__name__)

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """As `run` of this module. The coroutine has a copy of the caller's context: log lines have the request id."""
        finished: SimpleQueue[asyncio.Task[T]] = SimpleQueue()

        def start() -> None:
            self.loop.create_task(coroutine).add_done_callback(finished.put)

        self.loop.call_soon_threadsafe(start)
        try:
            return finished.get(timeout=timeout_s).result()
        except Empty:
            raise TimeoutError from None


def _log_type_only(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's own message may name an address or hold an exception's text."""
    if error := context.get("exception"):
        log.error("event loop of vendor calls: %s", type(error).__name__)


_lock = threading.Lock()
_process_loop: EventLoop | None = None


def process_loop() -> EventLoop:
    """This process's. Raises RuntimeError if its thread cannot be started."""
    global _process_loop  # noqa: PLW0603
    if _process_loop is None:
        with _lock:
            if _process_loop is None:
                _process_loop = EventLoop()
    return _process_loop


def run(coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
    """The result of `coroutine`, run on this process's loop. Raises TimeoutError after `timeout_s`; the coroutine goes
    on. Not to be called on the loop itself."""
    try:
        loop = process_loop()
    except RuntimeError:
        coroutine.close()
        raise
    return loop.run(coroutine, timeout_s)


async def run_in_thread(function: Callable[[], T]) -> T:
    """The result of `function`, run in a thread, in a copy of the caller's context. Raises RuntimeError if none can be
    started."""
    return await asyncio.wrap_future(process_loop().threads.submit(partial(copy_context().run, function)))


def _start_anew() -> None:
    """After a fork: the loop's thread is the parent's."""
    global _lock, _process_loop
    _lock, _process_loop = threading.Lock(), None


os.register_at_fork(after_in_child=_start_anew)
