"""Admission control: how many requests run at once, how many wait for their turn, and when the service is overloaded.

The HTTP server has a thread for each request that runs or waits, and some to spare. Requests run on threads of this
module, as many as may run at once, so what belongs to a thread (a connection to Redis or SQLite) is not there for each
that only waits. The threads to spare answer probes, and refuse what is too much.
"""

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

log = logging.getLogger(__name__)

#: Beside the requests that run or wait: threads for probes and refusals, of which /readyz holds one for long at most.
SPARE_THREADS = 4
LOG_EVERY_S = 10.0


class Overloaded(Exception):
    """As many requests wait as may, or this one has waited too long. It has not begun."""


class _Job:
    __slots__ = ("_claim", "_done", "_run", "error", "result")

    def __init__(self, run: Callable[[], Any]) -> None:
        self._run = run
        self._claim = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def claim(self) -> bool:
        """True once: for the thread that runs it, or for the one that gives it up before."""
        return self._claim.acquire(blocking=False)

    def run(self) -> None:
        try:
            self.result = self._run()
        except BaseException as error:
            self.error = error
        self._done.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Whether it has ended."""
        return self._done.acquire(timeout=timeout_s)


class Admission:
    """Runs up to `threads` calls at once and lets `max_queued` more wait, in order, up to `max_wait_s` each."""

    def __init__(self, threads: int, max_queued: int, max_wait_s: float) -> None:
        self._threads, self._max_queued, self._max_wait_s = threads, max_queued, max_wait_s
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = False
        self._refused, self._logged_at = 0, float("-inf")

    @property
    def queued(self) -> int:
        """How many calls wait for their turn."""
        return self._jobs.qsize()

    def run(self, call: Callable[[], Any]) -> Any:
        """What `call` returns or raises, run on one of the threads. Raises Overloaded."""
        if not self._started:
            self._start()
        if self._jobs.qsize() >= self._max_queued:
            raise self._overloaded()
        job = _Job(call)
        self._jobs.put(job)
        if not job.wait(self._max_wait_s):
            if job.claim():
                raise self._overloaded()
            job.wait()
        if job.error is not None:
            raise job.error
        return job.result

    def _start(self) -> None:
        # With the first request, not at import: threads keep the CPU that their process is bound to by then.
        with self._lock:
            if not self._started:
                for index in range(self._threads):
                    threading.Thread(target=self._work, name=f"request-{index}", daemon=True).start()
                self._started = True

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job.claim():
                job.run()
            del job  # its answer is not kept until the next one comes

    def _overloaded(self) -> Overloaded:
        with self._lock:
            self._refused += 1
            now = time.monotonic()
            if now - self._logged_at >= LOG_EVERY_S:
                log.warning("overloaded: %d request%s refused with 503", self._refused, "s"[: self._refused > 1])
                self._refused, self._logged_at = 0, now
        return Overloaded()
