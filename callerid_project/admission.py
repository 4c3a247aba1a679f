"""Limits how many searches run at once, and refuses late: by age, not by number.

A loop queues thousands of requests cheaply, so a short peak only waits. What has waited so long that its answer would
come too late is refused before it begins, and costs nothing.
"""

import asyncio
import time
from collections import deque

from core import metrics

RUNNING = metrics.Gauge("callerid_searches_running", "Searches that run.")
WAITING = metrics.Gauge("callerid_searches_waiting", "Searches that wait for others to end.")
REFUSED = metrics.Counter("callerid_searches_overloaded", "Searches that were refused with 503: too many others ran.")


class Overloaded(Exception):
    """The search waited too long, or too many others wait. It has not begun."""


class Admission:
    """Runs up to `most_running` at once. The others wait in order, up to `most_waiting` of them, each up to
    `max_wait_s`."""

    def __init__(self, *, most_running: int, most_waiting: int, max_wait_s: float) -> None:
        self._most_running, self._most_waiting, self._max_wait_s = most_running, most_waiting, max_wait_s
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def begin(self) -> None:
        """Returns when the search may run; `end` must follow. Raises Overloaded."""
        if self.running < self._most_running and not self._waiting:
            self.running += 1
            return
        if len(self._waiting) >= self._most_waiting:
            raise self._overloaded()
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except TimeoutError:
            self._give_up(turn)
            raise self._overloaded() from None
        except BaseException:
            self._give_up(turn)
            raise
        if time.monotonic() - began > self._max_wait_s:  # the loop itself was late
            self.end()
            raise self._overloaded()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        if turn.done() and not turn.cancelled():  # its turn has come at the same moment
            self.end()
        elif turn in self._waiting:  # `end` has not passed over it
            self._waiting.remove(turn)

    def end(self) -> None:
        """A search has ended: the oldest one that waits begins."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.running -= 1

    def sample(self) -> None:
        RUNNING.set(self.running)
        WAITING.set(len(self._waiting))

    @staticmethod
    def _overloaded() -> Overloaded:
        REFUSED.inc()
        return Overloaded()
