"""Admission control: how many requests run at once, how many are queued, and when the service is overloaded.

The HTTP server has a thread for each request that runs or is queued, plus spare ones. Requests run on the threads of
this module, as many as may run at once, so queued requests need no resources that belong to a thread, such as a SQLite
connection. The spare threads answer health checks and refuse requests beyond the queue.
"""

import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from core import metrics

log = logging.getLogger(__name__)

REFUSED = metrics.Counter(
    "callerid_http_requests_refused", "Requests that got 503 because too many were running and queued."
)
QUEUED = metrics.Gauge("callerid_http_requests_queued", "Requests that wait for a thread.")

#: For health checks and refusals, both short; at most one /readyz waits for the database.
SPARE_THREADS = 4
LOG_EVERY_S = 10.0


#: A call's result, and the exception that it raised instead.
_Outcome = SimpleQueue[tuple[Any, BaseException | None]]


class Overloaded(Exception):
    """The queue is full, or this request waited too long in it. It did not start."""


class Admission:
    """Runs up to `threads` calls at once and queues up to `max_queued` more, each for up to `max_wait_s`, in order."""

    def __init__(self, threads: int, max_queued: int, max_wait_s: float) -> None:
        self._threads, self._max_wait_s = threads, max_wait_s
        #: How many more calls may be admitted, to run or to be queued.
        self._capacity = threading.Semaphore(threads + max_queued)
        #: The lock is acquired by whoever starts the call or gives it up.
        self._queue: SimpleQueue[tuple[Callable[[], Any], threading.Lock, _Outcome]] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = False
        self._refused, self._logged_at = 0, float("-inf")

    @property
    def queued(self) -> int:
        """Number of calls in the queue."""
        return self._queue.qsize()

    def run(self, call: Callable[[], Any]) -> Any:
        """Run `call` on one of the threads, and return its result or raise its exception. Raises Overloaded."""
        if not self._started:
            self._start()
        if not self._capacity.acquire(blocking=False):
            raise self._overloaded()
        claim = threading.Lock()
        outcome: _Outcome = SimpleQueue()
        self._queue.put((call, claim, outcome))
        try:
            result, error = outcome.get(timeout=self._max_wait_s)
        except Empty:
            if claim.acquire(blocking=False):  # so no thread starts it any more
                self._capacity.release()
                raise self._overloaded() from None
            result, error = outcome.get()
        if error is not None:
            raise error
        return result

    def _start(self) -> None:
        # At the first request, not at import: threads inherit the CPU affinity that the process has by then.
        with self._lock:
            if not self._started:
                for index in range(self._threads):
                    threading.Thread(target=self._work, name=f"request-{index}", daemon=True).start()
                self._started = True

    def _work(self) -> None:
        while True:
            call, claim, outcome = self._queue.get()
            if claim.acquire(blocking=False):
                result: tuple[Any, BaseException | None]
                try:
                    result = call(), None
                except BaseException as error:
                    result = None, error
                self._capacity.release()  # first: the caller's next request must find room
                outcome.put(result)
                del result
            del call, outcome  # or they would stay in memory until the next call

    def _overloaded(self) -> Overloaded:
        REFUSED.inc()
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if now - self._logged_at >= LOG_EVERY_S:
                log.warning("overloaded: %d request%s refused with 503", self._refused, "s"[: self._refused > 1])
                self._refused, self._logged_at = 0, now
        return Overloaded()
