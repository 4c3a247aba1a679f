"""Notices `async` connectors that block the event loop: all searches of the process wait meanwhile."""

import logging
import time
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

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


@coroutine
def watched(name: str, call: Callable[[], Coroutine[Any, Any, T]]) -> Generator[Any, Any, T]:
    """The result of `call`, of the connector `name`. Measures each of its steps."""
    running = call()
    step, argument = running.send, None
    while True:
        began = time.monotonic()
        try:
            awaited = step(argument)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            if (blocked_s := time.monotonic() - began) > BLOCKED_S:
                _report(name, blocked_s)
        try:
            step, argument = running.send, (yield awaited)
        except BaseException as error:
            step, argument = running.throw, error


def _report(name: str, blocked_s: float) -> None:
    BLOCKED.inc(name)
    now = time.monotonic()
    if now - _logged_at.get(name, -LOG_INTERVAL_S) >= LOG_INTERVAL_S:
        _logged_at[name] = now
        log.warning("source blocks the event loop: connector=%s ms=%.0f", name, blocked_s * 1000)
