"""The guard around a connector that leaves the process: single flight, concurrency limit, circuit breaker, cache.

Single flight: concurrent searches for one number share one call. A search may stop waiting for it; the late answer
still fills the cache. All of it runs on the event loop, in one thread, so it needs no locks.
"""

import asyncio
import inspect
import logging
import time
from dataclasses import dataclass
from functools import partial

from django.conf import settings

from core import loop, metrics, tracing
from lookup import statistics
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector, call_connector, checked, raised
from lookup.vendors import cache
from lookup.vendors.blocking import Watched
from lookup.vendors.circuit_breaker import CircuitBreaker, Event

log = logging.getLogger(__name__)

CALL_DURATION = metrics.Histogram(
    "callerid_source_call_duration_seconds",
    "Durations of calls to remote sources, until the reply or the call timeout.",
    ("source", "outcome"),
    buckets=(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10),
)
BREAKERS_OPEN = metrics.Gauge(
    "callerid_circuit_breakers_open", "1 while this process pauses calls to the source after failures.", ("source",)
)
_OUTCOMES = ((Found, "found"), (NotFound, "not_found"), (Failed, "failed"))

BREAKER_OPEN = Failed("breaker", "not called: its circuit breaker is open after failures")
LATE = Failed("late", "it did not answer in time")
BUSY = Failed("busy", "not called: its concurrency limit is reached")
# A search that read the cache before an answer was there may come to the guard after the call has ended. It joins the
# call all the same, for this long: longer than reading the cache and writing to it take.
JOINABLE_S = 1.0
#: How long a call waits for its turn when as many run as the connector allows: as a share of SEARCH_DEADLINE_S.
TURN_SHARE = 1 / 3


class InFlightCall:
    """One call, shared by all searches that need its answer. `key`: of the cached answer."""

    def __init__(self, number: str, key: str) -> None:
        self.number = number
        self.key = key
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        #: Values of time.monotonic(). `ended`, when the answer came, is right once it is there.
        self.started = self.ended = time.monotonic()
        #: Whether it no longer waits for its turn.
        self.has_begun = False
        #: What CircuitBreaker.admit returned, from then on until the call's result is reported.
        self.breaker_permit: int | None = None


@dataclass(frozen=True, slots=True)
class GuardResult:
    """`at`: when the answer came, a value of time.monotonic(). `joined`: another search started the call."""

    answer: Answer
    at: float
    joined: bool = False


class Guard:
    """One connector's, in one process, shared by all slots that are bound to it."""

    def __init__(self, name: str, connector: Connector) -> None:
        self.name = name
        self.connector = connector
        self.breaker = CircuitBreaker(self._breaker_changed)
        BREAKERS_OPEN.set(0, name)
        #: Number of calls that run: at most `connector.concurrency`.
        self.in_flight = 0
        self._turns = asyncio.Semaphore(connector.concurrency)
        self._calls: dict[str, InFlightCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def key(self, number: str, cache_version: str) -> str:
        """The key of the cached answer. What was cached or called under another cache version is not used."""
        version = self.connector.version
        return cache.key(connector=self.name, version=version, number=number, cache_version=cache_version)

    async def lookup(self, number: str, *, key: str, deadline: float) -> GuardResult:
        """Wait for the answer about `number`, until `deadline` (a time.monotonic() value) or for the connector's
        `max_wait_s`. It was not in the cache."""
        asked_at = time.monotonic()
        call = self._calls.get(key)
        joined = call is not None
        if call is None:
            if self.breaker.refuses:
                return GuardResult(BREAKER_OPEN, asked_at)
            call = self._start(InFlightCall(number, key))
        if (max_wait_s := self.connector.max_wait_s) is not None:
            deadline = min(deadline, asked_at + max_wait_s)
        await asyncio.wait([call.answer], timeout=deadline - asked_at)
        if not call.answer.done():
            now = time.monotonic()
            failed = LATE if call.has_begun else BUSY
            self._log(failed, now - call.started)
            return GuardResult(failed, now, joined)
        # It may have ended before this search asked.
        return GuardResult(call.answer.result(), max(call.ended, asked_at), joined)

    async def close(self) -> None:
        """Wait for the calls in flight. No call may be started afterwards."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.connector.close()

    def _start(self, call: InFlightCall) -> InFlightCall:
        self._calls[call.key] = call
        task = asyncio.get_running_loop().create_task(self._run(call))
        self._tasks.add(task)  # the loop keeps no reference of its own
        task.add_done_callback(self._tasks.discard)
        return call

    async def _run(self, call: InFlightCall) -> None:
        answer = await self._call_in_turn(call)
        call.ended = time.monotonic()
        if answer is BUSY or answer is BREAKER_OPEN:
            del self._calls[call.key]
            call.answer.set_result(answer)
            return
        # Operators' own connectors may return subclasses.
        outcome = next(outcome for kind, outcome in _OUTCOMES if isinstance(answer, kind))
        CALL_DURATION.observe(call.ended - call.started, self.name, outcome)
        self._report(call, answer)
        call.answer.set_result(answer)
        if isinstance(answer, Failed):
            self._log(answer, call.ended - call.started)
            ttl_s = 0.0
        elif isinstance(answer, Found):
            ttl_s = 0.0 if answer.unreadable else self.connector.hit_ttl_s
        else:
            ttl_s = self.connector.miss_ttl_s
        if isinstance(answer, Failed) or ttl_s < 1:
            del self._calls[call.key]  # the search that follows makes a new call
        else:
            asyncio.get_running_loop().call_later(JOINABLE_S, self._calls.pop, call.key, None)
            await cache.answers.put(call.key, answer, ttl_s)

    async def _call_in_turn(self, call: InFlightCall) -> Answer:
        """The connector's answer; BUSY if other calls do not end soon, BREAKER_OPEN if they have failed."""
        if self._turns.locked():
            try:
                async with asyncio.timeout(settings.SEARCH_DEADLINE_S * TURN_SHARE):
                    await self._turns.acquire()
            except TimeoutError:
                return BUSY
        else:
            await self._turns.acquire()
        self.in_flight += 1
        late = None
        try:
            call.breaker_permit = self.breaker.admit()
            if call.breaker_permit is None:
                return BREAKER_OPEN
            call.started, call.has_begun = time.monotonic(), True
            longest_s = min(self.connector.max_wait_s or settings.SEARCH_DEADLINE_S, settings.SEARCH_DEADLINE_S)
            late = asyncio.get_running_loop().call_later(longest_s, self._report, call, LATE)
            with tracing.span("vendor call", connector=self.name):
                return await call_remote(self.name, self.connector, call.number)
        finally:
            if late is not None:
                late.cancel()
            self.in_flight -= 1
            self._turns.release()

    def _report(self, call: InFlightCall, answer: Answer) -> None:
        """Report the call's result to the circuit breaker, once: a call that takes longer than any search waits has
        failed, whatever it answers."""
        permit, call.breaker_permit = call.breaker_permit, None
        if permit is None:
            return
        if not isinstance(answer, Failed):
            self.breaker.succeeded(permit)
        elif answer.number_specific:
            self.breaker.responded(permit)
        else:
            open_now = answer.reason in ("auth", "quota")
            self.breaker.failed(permit, open_now=open_now, retry_after_s=answer.retry_after_s)

    def _log(self, failed: Failed, elapsed_s: float) -> None:
        args = self.name, failed.reason, elapsed_s * 1000, failed.hint
        log.warning("source failed: connector=%s reason=%s ms=%.0f %s", *args)

    def _breaker_changed(self, event: Event) -> None:
        log.warning("%s: connector=%s", event.replace("_", " "), self.name)
        BREAKERS_OPEN.set(self.breaker.is_open, self.name)
        statistics.count_event(self.name, event)


async def call_remote(name: str, connector: Connector, number: str) -> Answer:
    """The connector's answer; exceptions and wrong types become Failed.

    An `async def lookup` is cancelled after CALL_LIFETIME_S. A `def lookup` runs in a thread, which nothing can
    interrupt: its call ends when it returns.
    """
    timeout_s = settings.CALL_LIFETIME_S
    if not inspect.iscoroutinefunction(connector.lookup):
        call = partial(call_connector, name, connector.lookup, number, timeout_s=timeout_s)
        try:
            return await loop.run_in_thread(call)
        except RuntimeError as error:  # no thread can be started
            return raised(name, error)
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return checked(name, await Watched(name, connector.lookup(number, timeout_s=timeout_s)))
    except BaseException as error:
        if isinstance(error, TimeoutError) and limit.expired():
            return Failed("unavailable", f"no complete reply within {timeout_s:g} s")
        return raised(name, error)
