"""Limits how many searches run at once, and refuses late: by age, and by number only to bound the memory.

A search that waits for a vendor, for a connector in a thread or for another request does not count meanwhile: it uses
neither the event loop nor the database. So the limit can be low, and searches that have begun end in time on a slow
machine too, where each of them delays all others.

A loop queues thousands of requests cheaply, so a short peak only waits. What has waited so long that its answer would
come too late is refused before it begins. While the oldest one has waited for half of that time, the queue does not
clear, and new searches are refused on arrival, which costs little.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.conf import settings

from core import metrics

RUNNING = metrics.Gauge("callerid_searches_running", "Searches that run and do not wait for a vendor.")
WAITING = metrics.Gauge("callerid_searches_waiting", "Searches that wait for others to end.")
REFUSED = metrics.Counter("callerid_searches_overloaded", "Searches that were refused with 503: too many others ran.")


class Overloaded(Exception):
    """The search waited too long, or too many others wait. It has not begun. `wait_s`: Retry-After in seconds."""

    wait_s = 1


class Turn:
    """Of a search. `waiting`: how many of its parts, which run at the same time, wait for something else."""

    __slots__ = ("admission", "waiting")

    def __init__(self, admission: "Admission") -> None:
        self.admission, self.waiting = admission, 0


#: That of the search in progress; None outside of one.
_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


class Admission:
    """Runs up to `most_running` at once. The others wait in order, up to `most_waiting` of them, each up to
    `max_wait_s`."""

    def __init__(self, *, most_running: int, most_waiting: int, max_wait_s: float) -> None:
        self._most_running, self._most_waiting, self._max_wait_s = most_running, most_waiting, max_wait_s
        self.running = 0
        #: Searches that were admitted during this turn of the event loop.
        self._admitted_this_turn = 0
        #: Each one's turn, and when it began to wait (time.monotonic).
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def admits(self) -> bool:
        """Whether a search whose headers have arrived may go on to `begin`. Those of one turn of the event loop are
        counted here, because none of them has reached `begin` yet."""
        if self._is_full(self._admitted_this_turn):
            return False
        if not self._admitted_this_turn:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._admitted_this_turn += 1
        return True

    def _end_turn(self) -> None:
        self._admitted_this_turn = 0

    def _is_full(self, admitted: int = 0) -> bool:
        """Whether a search that comes now is refused at once. `admitted`: how many come before it."""
        if self._waiting and time.monotonic() - self._waiting[0][1] > self._max_wait_s / 2:
            return True
        free = max(0, self._most_running - self.running) + self._most_waiting - len(self._waiting)
        return admitted >= free

    async def begin(self) -> None:
        """Returns when the search may run; `end` must follow. Raises Overloaded."""
        _turn.set(Turn(self))
        if self.running < self._most_running and not self._waiting:
            self.running += 1
            return
        if self._is_full():
            raise Overloaded
        loop = asyncio.get_running_loop()
        turn, began = loop.create_future(), time.monotonic()
        self._waiting.append((turn, began))
        if self._timer is None:
            self._timer = loop.call_later(self._max_wait_s, self._refuse_oldest)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn has come at the same moment
                self.end()
            raise
        if time.monotonic() - began > self._max_wait_s:  # the loop itself was late
            self.end()
            raise Overloaded

    def end(self) -> None:
        """A search has ended: the oldest one that waits begins."""
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1

    @contextmanager
    def released(self) -> Iterator[None]:
        """Does not count the search while it waits for something else than the event loop and the database: another
        one may run. Of one that was not admitted there is nothing to release."""
        turn = _turn.get()
        if turn is None or turn.admission is not self:
            yield
            return
        turn.waiting += 1
        if turn.waiting == 1:
            self.end()
        try:
            yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                self.running += 1

    def _refuse_oldest(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self._waiting:
            turn, began = self._waiting[0]
            if not turn.done():
                if (left_s := began + self._max_wait_s - now) > 0:
                    self._timer = asyncio.get_running_loop().call_later(left_s, self._refuse_oldest)
                    return
                turn.set_exception(Overloaded())
            self._waiting.popleft()

    def sample(self) -> None:
        RUNNING.set(self.running)
        WAITING.set(len(self._waiting))


#: This process's. Tests replace it.
searches = Admission(
    most_running=settings.MAX_RUNNING_SEARCHES,
    most_waiting=settings.MAX_WAITING_SEARCHES,
    max_wait_s=settings.SEARCH_DEADLINE_S / 4,
)
metrics.sampler(searches.sample)
