"""A circuit breaker: it opens after failures, so that what is down is not called; then one call probes it.

Not pybreaker, which holds its lock during the call and so allows one call at a time. Here a call may be reported before
it has ended (a late call has failed), and some failures open the breaker at once, or for as long as a vendor asks. Of
calls that begin in several threads at the same moment, more than one may be a probe.
"""

import time
from collections.abc import Callable
from typing import Literal

Event = Literal["breaker_opened", "breaker_closed"]


class CircuitBreaker:
    """Opens for `open_s` after so many `failures` in a row, and for twice as long after each failed probe, up to
    `max_open_s` (by default `open_s`). `on_event` is called when it opens and when it closes."""

    def __init__(
        self,
        on_event: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        failures: int,
        open_s: float,
        max_open_s: float = 0.0,
    ) -> None:
        #: When the next call may be a probe, by `clock`; None while it is closed.
        self.open_until: float | None = None
        self._on_event = on_event
        self._clock = clock
        self._most_failures, self._open_s, self._max_open_s = failures, open_s, max_open_s or open_s
        self._failures = self._failed_probes = 0
        # Calls without a result yet that began after the breaker last opened: while it is open, its probe alone. The
        # result of any other call is ignored.
        self._permits: set[object] = set()

    @property
    def is_open(self) -> bool:
        return self.open_until is not None

    @property
    def refuses(self) -> bool:
        """Whether it admits no call: it is open, or half-open with its probe under way."""
        return self.open_until is not None and (bool(self._permits) or self._clock() < self.open_until)

    def admit(self) -> object | None:
        """Admit one call: a permit, to be passed with its result. None while it `refuses`."""
        if self.refuses:
            return None
        permit = object()
        self._permits.add(permit)
        return permit

    def is_current(self, permit: object) -> bool:
        """Whether the call may go on: the breaker has not opened since it was admitted, or has closed again."""
        return not self.is_open or permit in self._permits

    def succeeded(self, permit: object) -> None:
        if self._take(permit):
            self._failures = 0
            self.close()

    def responded(self, permit: object) -> None:
        """The call failed for its number alone: closes a half-open breaker; otherwise ignored."""
        if self._take(permit):
            self.close()

    def dismissed(self, permit: object) -> None:
        """The call ended without a result that tells anything: the next one may be the probe."""
        self._take(permit)

    def failed(self, permit: object, *, open_now: bool = False, retry_after_s: float | None = None) -> None:
        """`open_now`: the next call would fail the same way. `retry_after_s`: after which the vendor asks to be called
        again; the breaker opens at once for that time. A failure that opens it anyway (too many, `open_now`, a failed
        probe) opens it for `open_s` at least: a vendor that always asks for one second is not called every second."""
        if not self._take(permit):
            return
        retry_after_s = max(0.0, retry_after_s or 0.0)
        self._failures += 1
        if self.is_open:
            self._failed_probes += 1
        full_time = self.is_open or open_now or self._failures >= self._most_failures
        if full_time or retry_after_s:
            open_s = min(self._open_s * 2 ** min(self._failed_probes, 16), self._max_open_s)
            self.open(max(retry_after_s, open_s if full_time else 0.0))

    def open(self, for_s: float | None = None) -> None:
        """By default for `open_s`. The results of all calls under way are ignored."""
        was_open = self.is_open
        self.open_until = self._clock() + (self._open_s if for_s is None else for_s)
        self._failures = 0
        self._permits.clear()
        if not was_open:
            self._on_event("breaker_opened")

    def _take(self, permit: object) -> bool:
        """Whether the call's result counts: it is the call's first one, and the breaker has not opened meanwhile."""
        counts = permit in self._permits
        self._permits.discard(permit)
        return counts

    def close(self) -> None:
        self._failed_probes = 0
        if self.is_open:
            self.open_until = None
            self._on_event("breaker_closed")
