"""Around every connector that leaves the process: cache, one call a number, breaker, bulkhead.

`ask` never waits for the source: the call runs in a thread of the connector's own, and whoever gives it up may go. Its
late answer still fills the cache.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors import cache
from lookup.connectors.base import Connector, asked
from lookup.connectors.breaker import Breaker, Event

log = logging.getLogger(__name__)

BREAKER_OPEN = Failed("breaker", "it failed and is left alone for a while")
BUSY = Failed("busy", "all its threads wait for it")


class Flight:
    """One call on its way. `admitted`: the breaker's pass for it."""

    def __init__(self, number: str) -> None:
        self.number = number
        self.future: Future[Answer] = Future()
        self.admitted: int | None = None
        self.judged = False


@dataclass(frozen=True, slots=True)
class Asked:
    """`answer`: at once, from the cache or because nobody was asked; or else `flight`, whose future will have it.
    `joined`: another search had begun it."""

    answer: Answer | None = None
    flight: Flight | None = None
    joined: bool = False


class Guard:
    """One connector's, in one process, for all slots that it is bound to.

    `on_event(connector, event)` hears of the breaker.
    """

    def __init__(self, name: str, connector: Connector, on_event: Callable[[str, Event], None]) -> None:
        self.name = name
        self.connector = connector
        self.slots: set[str] = set()
        self.breaker = Breaker(self._tell)
        self._on_event = on_event
        self._lock = threading.Lock()
        self._flights: dict[str, Flight] = {}
        self._threads = ThreadPoolExecutor(connector.concurrency, thread_name_prefix=name)
        self._free = threading.BoundedSemaphore(connector.concurrency)

    def ask(self, slot: str, number: str, *, deadline: float) -> Asked:
        """What is known about `number`, or a call that will tell. `deadline`: a time.monotonic() value."""
        with self._lock:
            if flight := self._flights.get(number):
                return Asked(flight=flight, joined=True)
            # From here on others join, so that nobody asks between an answer's coming and its being kept.
            flight = self._flights[number] = Flight(number)
        answer: Answer | None = BUSY
        try:
            answer = cache.answers().get(self._key(slot, number)) or self._take_off(flight, deadline)
        finally:
            if answer is not None:
                flight.future.set_result(answer)
                self._landed(flight)
        return Asked(answer=answer) if answer else Asked(flight=flight)

    def _take_off(self, flight: Flight, deadline: float) -> Failed | None:
        """Start the call; or why it is not made."""
        if not self._free.acquire(blocking=False):
            return BUSY
        flight.admitted = self.breaker.admit()
        if flight.admitted is None:
            self._free.release()
            return BREAKER_OPEN
        # The thread's own copy of the context: the request id stands in its log lines too.
        self._threads.submit(contextvars.copy_context().run, self._fly, flight, deadline)
        return None

    def _landed(self, flight: Flight) -> None:
        with self._lock:
            del self._flights[flight.number]

    def gave_up(self, flight: Flight) -> None:
        """A search did not wait longer: the source is late, which is a failure even if it answers yet."""
        self._judge(flight, Failed("late"))

    def close(self) -> None:
        """Wait for the calls on their way; no other can be made."""
        self._threads.shutdown()

    def _fly(self, flight: Flight, deadline: float) -> None:
        started = time.monotonic()
        try:
            answer = asked(self.name, self.connector, flight.number, timeout_s=max(0.0, deadline - started))
            self._judge(flight, answer)
            if isinstance(answer, Failed):
                elapsed_ms = (time.monotonic() - started) * 1000
                log.warning(
                    "source failed: connector=%s reason=%s ms=%.0f %s",
                    self.name,
                    answer.reason,
                    elapsed_ms,
                    answer.hint,
                )
            flight.future.set_result(answer)
            self._keep(flight.number, answer)
        finally:
            self._landed(flight)
            self._free.release()

    def _judge(self, flight: Flight, answer: Answer) -> None:
        """Tell the breaker, once for each call."""
        with self._lock:
            if flight.judged or flight.admitted is None:
                return
            flight.judged = True
        if isinstance(answer, Failed):
            self.breaker.failed(
                flight.admitted, at_once=answer.reason in ("auth", "quota"), pause_s=answer.retry_after_s
            )
        else:
            self.breaker.succeeded(flight.admitted)

    def _keep(self, number: str, answer: Answer) -> None:
        if isinstance(answer, Found | NotFound):
            ttl_s = self.connector.hit_ttl_s if isinstance(answer, Found) else self.connector.miss_ttl_s
            for slot in self.slots:
                cache.answers().put(self._key(slot, number), answer, ttl_s)

    def _key(self, slot: str, number: str) -> str:
        return cache.key(slot=slot, connector=self.name, version=self.connector.version, number=number)

    def _tell(self, event: Event) -> None:
        log.warning("%s: connector=%s", event.replace("_", " "), self.name)
        self._on_event(self.name, event)
