"""Around every connector that leaves the process: cache, one call a number, breaker, bulkhead.

`ask` never waits for the source: the call runs in a thread of the connector's own, and whoever gives it up may go. Its
late answer still fills the cache.
"""

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

from django.conf import settings

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors import cache
from lookup.connectors.base import Connector, asked
from lookup.connectors.breaker import Breaker, Event

log = logging.getLogger(__name__)

BREAKER_OPEN = Failed("breaker", "it failed and is left alone for a while")
LATE = Failed("late", "it has not answered in time")
BUSY = Failed("busy", "all its threads wait for it")
# Of the time that a search gives a source: one that was asked later is not late, only out of luck.
FAIR_SHARE = 0.5


#: What one thread is to do; None: to end.
_Work = SimpleQueue[Callable[[], object] | None]


class Threads:
    """Threads that end with the process: concurrent.futures' would hold its end until the last call has come back. As
    many as were ever needed at once, for calls and for keeping their answers; the one that was busy last is next, so
    that few connections are in use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[_Work] = []
        self._all: list[tuple[threading.Thread, _Work]] = []

    def run(self, work: Callable[[], object]) -> None:
        """Raises RuntimeError when no thread can be had; then nothing runs."""
        try:
            mine = self._idle.pop()
        except IndexError:
            mine = SimpleQueue()
            thread = threading.Thread(target=self._loop, args=[mine], name=self._name, daemon=True)
            thread.start()
            self._all.append((thread, mine))
        mine.put(work)

    def close(self) -> None:
        """Wait for what runs."""
        for _, mine in self._all:
            mine.put(None)
        for thread, _ in self._all:
            thread.join()

    def _loop(self, mine: _Work) -> None:
        while work := mine.get():
            work()
            self._idle.append(mine)


class Flight:
    """One call on its way. `admitted`: the breaker's pass for it. `ended`: when its answer came, a time.monotonic()
    value that stands once the future is done."""

    def __init__(self, number: str, mark: str) -> None:
        self.number = number
        self.mark = mark
        self.began = self.ended = time.monotonic()
        self.future: Future[Answer] = Future()
        self.admitted: int | None = None
        self.judged = False

    def answer(self, answer: Answer) -> None:
        self.ended = time.monotonic()
        self.future.set_result(answer)


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
        self._flights: dict[tuple[str, str], Flight] = {}
        self._threads = Threads(name)
        self._free = threading.BoundedSemaphore(connector.concurrency)

    def ask(self, slot: str, number: str, *, mark: str, deadline: float) -> Asked:
        """What is known about `number`, or a call that will tell: kept, or begun, under the same `mark` (lookup.marks).
        `deadline`: a time.monotonic() value."""
        with self._lock:
            if flight := self._flights.get((number, mark)):
                return Asked(flight=flight, joined=True)
            # From here on others join, so that nobody asks between an answer's coming and its being kept.
            flight = self._flights[number, mark] = Flight(number, mark)
        answer: Answer | None = BUSY
        try:
            answer = cache.answers().get(self._key(slot, flight)) or self._take_off(flight, deadline)
        finally:
            if answer is not None:
                flight.answer(answer)
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
        context = contextvars.copy_context()
        try:
            self._threads.run(lambda: context.run(self._fly, flight, deadline))
        except RuntimeError:
            self.breaker.failed(flight.admitted)
            self._free.release()
            return BUSY
        return None

    def _landed(self, flight: Flight) -> None:
        with self._lock:
            of = flight.number, flight.mark
            if self._flights.get(of) is flight:  # by now it may be the next one's
                del self._flights[of]

    def gave_up(self, flight: Flight) -> None:
        """A search did not wait longer: the source is late, which is a failure even if it answers yet, unless too
        little time was left for it."""
        waited_s = time.monotonic() - flight.began
        self._log(LATE, waited_s)
        patience_s = min(self.connector.patience_s or settings.SEARCH_DEADLINE_S, settings.SEARCH_DEADLINE_S)
        if waited_s >= FAIR_SHARE * patience_s:
            self._judge(flight, LATE)

    def close(self) -> None:
        """Wait for the calls on their way; no other can be made."""
        self._threads.close()

    def _fly(self, flight: Flight, deadline: float) -> None:
        try:
            timeout_s = max(0.0, deadline - flight.began)
            try:
                answer = asked(self.name, lambda: self.connector.lookup(flight.number, timeout_s=timeout_s))
            finally:
                self._free.release()  # before anybody learns the answer: who asks then must find room
            if isinstance(answer, Failed):
                self._landed(flight)  # first: whoever asks after a failure asks anew
                self._log(answer, time.monotonic() - flight.began)
            self._judge(flight, answer)
            flight.answer(answer)
            self._keep(flight, answer)
        finally:
            self._landed(flight)

    def _judge(self, flight: Flight, answer: Answer) -> None:
        """Tell the breaker, once for each call."""
        with self._lock:
            if flight.judged or flight.admitted is None:
                return
            flight.judged = True
        if isinstance(answer, Failed) and answer.of_this_number:
            self.breaker.answered(flight.admitted)
        elif isinstance(answer, Failed):
            self.breaker.failed(
                flight.admitted, at_once=answer.reason in ("auth", "quota"), pause_s=answer.retry_after_s
            )
        else:
            self.breaker.succeeded(flight.admitted)

    def _log(self, failed: Failed, elapsed_s: float) -> None:
        words = self.name, failed.reason, elapsed_s * 1000, failed.hint
        log.warning("source failed: connector=%s reason=%s ms=%.0f %s", *words)

    def _keep(self, flight: Flight, answer: Answer) -> None:
        if isinstance(answer, NotFound) or (isinstance(answer, Found) and not answer.unreadable):
            ttl_s = self.connector.hit_ttl_s if isinstance(answer, Found) else self.connector.miss_ttl_s
            for slot in self.slots:
                cache.answers().put(self._key(slot, flight), answer, ttl_s)

    def _key(self, slot: str, flight: Flight) -> str:
        return cache.key(
            slot=slot,
            connector=self.name,
            version=self.connector.version,
            number=flight.number,
            mark=flight.mark,
        )

    def _tell(self, event: Event) -> None:
        log.warning("%s: connector=%s", event.replace("_", " "), self.name)
        self._on_event(self.name, event)
