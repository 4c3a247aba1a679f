"""The event loop of this process. Searches and their vendor calls run on it, in one thread.

A serving process runs the loop in its main thread (callerid_project.asgi). In commands and tests the first `run` starts
one in a background thread. What would block the loop runs in threads (`run_in_thread`): DNS lookups, `def lookup`
of connectors, large replies. They are daemons, so that none delays the end of the process, as those of
concurrent.futures would.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from django.db import connection

log = logging.getLogger(__name__)

T = TypeVar("T")
#: A function to run, and the future of its result.
Job = tuple[Callable[[], Any], Future[Any]]


class Limit:
    """Calls `function` after `timeout_s` and three more turns of this thread's event loop, unless it is cancelled.

    When the loop itself was late, the reply that is waited for has arrived by then: the first turn receives it, the
    second parses it, the third hands it over.
    """

    __slots__ = ("_function", "_handle", "_loop", "reached")

    def __init__(self, timeout_s: float, function: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._function = function
        #: Whether `function` was called.
        self.reached = False
        self._handle: asyncio.Handle = self._loop.call_later(timeout_s, self._wait, 3)

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self, turns: int) -> None:
        if turns:
            self._handle = self._loop.call_soon(self._wait, turns - 1)
        else:
            self.reached = True
            self._function()


class DaemonThreads:
    """Runs functions in threads, as many as were ever needed at once. Callers limit how many that is."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Raises RuntimeError if no thread can be started; then `function` does not run."""
        future: Future[T] = Future()
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._work, name="worker", daemon=True).start()
        self._queue.put((function, future))
        return future

    def _work(self) -> None:
        while True:
            execute(*self._queue.get())
            self._idle.release()


def execute(function: Callable[[], Any], future: Future[Any]) -> None:
    """Run `function` unless `future` was cancelled, and set its result."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)


_threads = DaemonThreads()
#: Each keeps a connection of Django's, for SQLite.
_with_connection = ThreadPoolExecutor(max_workers=4, thread_name_prefix="database")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
#: The jobs of the thread that waits in `run`; None for what a serving process runs itself.
_jobs_of_caller: ContextVar["SimpleQueue[Job | None] | None"] = ContextVar("jobs_of_caller", default=None)


def adopt(loop: asyncio.AbstractEventLoop) -> None:
    """Make `loop`, which runs in this thread, the loop of this process."""
    global _loop  # noqa: PLW0603
    loop.set_exception_handler(_log_type_only)
    _loop = loop


def _get() -> asyncio.AbstractEventLoop:
    """The loop of this process, started in a background thread where there is none. Raises RuntimeError if no thread
    can be started."""
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            try:
                threading.Thread(target=_run_forever, args=(loop,), name="event-loop", daemon=True).start()
            except RuntimeError:
                loop.close()
                raise
            adopt(loop)
        return cast(asyncio.AbstractEventLoop, _loop)


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    while True:  # a task of a connector may raise SystemExit, or stop the loop
        try:
            loop.run_forever()
        except BaseException as error:
            log.error("event loop: %s", type(error).__name__)


def _log_type_only(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio's own message may name an address or hold an exception's text."""
    if error := context.get("exception"):
        log.error("event loop: %s", type(error).__name__)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of `coroutine`, run on this process's loop, for code that is not on it. The coroutine has a copy of
    the caller's context, and uses the caller's database connection (`run_with_connection`)."""
    jobs: SimpleQueue[Job | None] = SimpleQueue()
    context = copy_context()
    context.run(_jobs_of_caller.set, jobs)
    finished: SimpleQueue[asyncio.Task[T]] = SimpleQueue()

    def start() -> None:
        task = loop.create_task(coroutine, context=context)
        task.add_done_callback(finished.put)
        task.add_done_callback(lambda _: jobs.put(None))

    try:
        loop = _get()
    except RuntimeError:
        coroutine.close()
        raise
    loop.call_soon_threadsafe(start)
    while job := jobs.get():
        execute(*job)
    return finished.get().result()


async def run_in_thread(function: Callable[[], T]) -> T:
    """The result of `function`, run in a thread, in a copy of the caller's context. Raises RuntimeError if none can be
    started."""
    return await asyncio.wrap_future(_threads.submit(partial(copy_context().run, function)))


async def run_with_connection(function: Callable[[], T]) -> T:
    """The result of `function`, which uses Django's database connection: of the thread that waits in `run`, whose
    transaction it is part of; else of one of a few threads that keep theirs."""
    jobs = _jobs_of_caller.get()
    if jobs is None:
        run_in_context = partial(copy_context().run, _on_own_connection, function)
        return await asyncio.get_running_loop().run_in_executor(_with_connection, run_in_context)
    future: Future[T] = Future()
    jobs.put((function, future))
    return await asyncio.wrap_future(future)


def _on_own_connection(function: Callable[[], T]) -> T:
    try:
        return function()
    finally:
        if connection.errors_occurred:  # Django looks at this when a request of its own ends
            connection.close_if_unusable_or_obsolete()
