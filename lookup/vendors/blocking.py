"""Notices `async` connectors that block the event loop: all searches of the process wait meanwhile."""

import logging
import time
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

from core import metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A connector that computes, or waits without `await`, for longer than this is reported.
BLOCKED_S = 0.05
#: How often a connector's log line is repeated at most.
LOG_INTERVAL_S = 60.0

BLOCKED = metrics.Counter(
    "callerid_source_blocked_event_loop",
    f"Times that a source blocked the event loop for more than {BLOCKED_S * 1000:.0f} ms.",
    ("source",),
)
_logged_at: dict[str, float] = {}


class Watched(Generic[T]):
    """An awaitable that runs `coroutine`, a call of the connector `name`, and measures each of its steps."""

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, T]) -> None:
        self._name, self._coroutine = name, coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        step, argument = self._coroutine.send, None
        while True:
            began = time.monotonic()
            try:
                awaited = step(argument)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                if (blocked_s := time.monotonic() - began) > BLOCKED_S:
                    _report(self._name, blocked_s)
            try:
                step, argument = self._coroutine.send, (yield awaited)
            except BaseException as error:
                step, argument = self._coroutine.throw, error


def _report(name: str, blocked_s: float) -> None:
    BLOCKED.inc(name)
    now = time.monotonic()
    if now - _logged_at.get(name, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
        _logged_at[name] = now
        log.warning("source blocks the event loop: connector=%s ms=%.0f", name, blocked_s * 1000)
