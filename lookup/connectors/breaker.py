"""A circuit breaker: leaves a source alone that fails, and tries it again with one call.

Not pybreaker: that holds its lock while the call runs, so that one call at a time is made; here the verdict on a call
may come from another thread than the call's own, before the call has ended (a late call has failed), and some failures
open it at once or for as long as the source asks.
"""

import threading
import time
from collections.abc import Callable
from typing import Literal

FAILURES = 5
OPEN_S = 30.0

Event = Literal["breaker_opened", "breaker_closed"]


class Breaker:
    """`on_event` is called when it opens and when it closes, in the thread that made it do so."""

    def __init__(self, on_event: Callable[[Event], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._on_event = on_event
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False
        # Counts openings: the verdict on a call that began before the last one says nothing about now.
        self._era = 0

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    def admit(self) -> int | None:
        """A pass for one call, to be shown with its verdict; None while the source is left alone."""
        with self._lock:
            if self._open_until is not None:
                if self._probing or self._clock() < self._open_until:
                    return None
                self._probing = True
            return self._era

    def succeeded(self, admitted: int) -> None:
        with self._lock:
            if admitted != self._era:
                return
            closed = self._open_until is not None
            self._failures, self._open_until, self._probing = 0, None, False
        if closed:
            self._on_event("breaker_closed")

    def answered(self, admitted: int) -> None:
        """No success, but the source is there: a probe is one, anything else counts for nothing."""
        if self.is_open:
            self.succeeded(admitted)

    def failed(self, admitted: int, *, at_once: bool = False, pause_s: float | None = None) -> None:
        """`at_once`: the next call would fail the same way. `pause_s`: how long the source asks to be left alone; it
        shortens the time only for the first failure, or one that always asks for a second would be asked for ever."""
        pause_s = pause_s if pause_s and pause_s > 0 else None
        with self._lock:
            if admitted != self._era:
                return
            self._failures += 1
            was_open = self._open_until is not None
            for_good = was_open or at_once or self._failures >= FAILURES
            if not (for_good or pause_s is not None):
                return
            self._open_until = self._clock() + max(pause_s or 0.0, OPEN_S if for_good else 0.0)
            self._failures, self._probing = 0, False
            self._era += 1
        if not was_open:
            self._on_event("breaker_opened")
