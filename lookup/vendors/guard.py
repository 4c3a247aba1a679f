"""The guard around a connector that leaves the process: single flight, concurrency limit, circuit breaker, cache.

A search for which the cache has no answer asks `Guard.lookup`, which joins the call for that number, or starts one: an
asyncio.Task (`Guard._run`) that no search cancels. A search stops waiting at its deadline, or after the connector's
`max_wait_s` (LATE, or BUSY while the call waits for its turn). The call goes on, and its answer is cached.

The circuit breaker learns the result of a call once: that of a call which takes longer than any search waits is a
failure, whatever it answers. All of this runs on the event loop, in one thread, so it needs no locks.
"""

import asyncio
import logging
import time

from django.conf import settings

from core import metrics, tracing
from core.circuit_breaker import CircuitBreaker, Event
from lookup.answers import ACCOUNT_REASONS, Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector, call_connector
from lookup.vendors import cache

log = logging.getLogger(__name__)

CALL_DURATION = metrics.Histogram(
    "callerid_source_call_duration_seconds",
    "Durations of calls to remote sources, until the reply or the call timeout.",
    ("source", "outcome"),
    buckets=(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10),
)
BREAKERS_OPEN = metrics.Gauge(
    "callerid_circuit_breakers_open", "1 while this process does not call the source after failures.", ("source",)
)

CANCELLED = Failed("error", "it cancelled its own task")
BREAKER_OPEN = Failed("breaker", "not called: its circuit breaker is open after failures")
LATE = Failed("late", "it did not answer in time")
BUSY = Failed("busy", "not called: its concurrency limit is reached")
# A search that read the cache before an answer was there may come to the guard after the call has ended. It joins the
# call all the same, for this long: longer than reading the cache and writing to it take.
JOINABLE_S = 1.0
#: The circuit breaker opens for OPEN_S after so many failures in a row.
FAILURES, OPEN_S = 5, 30.0
#: How long a call waits for its turn when as many run as the connector allows: as a share of SEARCH_DEADLINE_S.
TURN_SHARE = 1 / 3


class Guard:
    """One connector's, in one process, shared by all slots that are bound to it."""

    def __init__(self, name: str, connector: Connector) -> None:
        self.name = name
        self.connector = connector
        self.breaker = CircuitBreaker(self._breaker_changed, failures=FAILURES, open_s=OPEN_S)
        BREAKERS_OPEN.set(0, name)
        #: The calls that a search can join, by the key of the cached answer.
        self.calls: dict[str, asyncio.Task[Answer]] = {}
        self._turns = asyncio.Semaphore(connector.concurrency)
        #: The keys of calls that wait for their turn.
        self._waiting: set[str] = set()

    def key(self, number: str, cache_version: str) -> str:
        """The key of the cached answer. What was cached or called under another cache version is not used."""
        version = self.connector.version
        return cache.key(connector=self.name, version=version, number=number, cache_version=cache_version)

    async def lookup(self, number: str, *, key: str, deadline: float) -> tuple[Answer, bool]:
        """The answer about `number`, which was not in the cache, and whether another search started the call.
        `deadline`: a time.monotonic() value."""
        asked_at = time.monotonic()
        call = self.calls.get(key)
        joined = call is not None
        if call is None:
            if self.breaker.refuses:
                return BREAKER_OPEN, False
            call = self.calls[key] = asyncio.get_running_loop().create_task(self._run(number, key))
        if (max_wait_s := self.connector.max_wait_s) is not None:
            deadline = min(deadline, asked_at + max_wait_s)
        await asyncio.wait([call], timeout=deadline - asked_at)
        if call.done():
            return (CANCELLED if call.cancelled() else call.result()), joined
        failed = BUSY if key in self._waiting else LATE
        self._log(failed, time.monotonic() - asked_at)
        return failed, joined

    async def close(self) -> None:
        """Wait for the calls in flight. No call may be started afterwards."""
        if self.calls:
            await asyncio.wait(self.calls.values())
        await cache.answers.flush()
        await self.connector.close()

    async def _run(self, number: str, key: str) -> Answer:
        try:
            return await self._answer(number, key)
        except BaseException:  # a connector's own, or it has cancelled this task: the next search calls it again
            self.calls.pop(key, None)
            raise

    async def _answer(self, number: str, key: str) -> Answer:
        answer: Answer = BUSY
        if await self._wait_for_turn(key):
            try:
                permit = self.breaker.admit()
                answer = BREAKER_OPEN if permit is None else await self._call(number, permit)
            finally:
                self._turns.release()
        ttl_s = 0.0
        if isinstance(answer, Found) and not answer.unreadable:
            ttl_s = self.connector.hit_ttl_s
        elif isinstance(answer, NotFound):
            ttl_s = self.connector.miss_ttl_s
        if isinstance(answer, Failed) or ttl_s < 1:
            del self.calls[key]
        else:
            cache.answers.put(key, answer, ttl_s)
            asyncio.get_running_loop().call_later(JOINABLE_S, self.calls.pop, key)
        return answer

    async def _wait_for_turn(self, key: str) -> bool:
        """Whether the call may run; if so, it has to release `_turns`."""
        if not self._turns.locked():
            return await self._turns.acquire()
        self._waiting.add(key)
        try:
            async with asyncio.timeout(settings.SEARCH_DEADLINE_S * TURN_SHARE):
                return await self._turns.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(key)

    async def _call(self, number: str, permit: object) -> Answer:
        started = time.monotonic()
        longest_s = min(self.connector.max_wait_s or settings.SEARCH_DEADLINE_S, settings.SEARCH_DEADLINE_S)
        late = asyncio.get_running_loop().call_later(longest_s, self.breaker.failed, permit)
        with tracing.span("vendor call", connector=self.name):
            timeout_s = settings.CALL_LIFETIME_S
            answer = await call_connector(self.name, self.connector, number, timeout_s=timeout_s)
        late.cancel()
        elapsed_s = time.monotonic() - started
        CALL_DURATION.observe(elapsed_s, self.name, answer.outcome)
        if not isinstance(answer, Failed):
            self.breaker.succeeded(permit)
        else:
            self._log(answer, elapsed_s)
            if answer.number_specific:
                self.breaker.responded(permit)
            else:
                open_now = answer.reason in ACCOUNT_REASONS
                self.breaker.failed(permit, open_now=open_now, retry_after_s=answer.retry_after_s)
        return answer

    def _log(self, failed: Failed, elapsed_s: float) -> None:
        args = self.name, failed.reason, elapsed_s * 1000, failed.hint
        log.warning("source failed: connector=%s reason=%s ms=%.0f %s", *args)

    def _breaker_changed(self, event: Event) -> None:
        log.warning("%s: connector=%s", event.replace("_", " "), self.name)
        BREAKERS_OPEN.set(self.breaker.is_open, self.name)
