"""At most RATE_LIMIT accepted requests by one token in any window: an exact sliding log.

On Redis one script, by the server's clock, in one round trip, shared by all processes and hosts; without Redis, or
while it is away, the same log in this process, by a monotonic clock.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from accounts import shared_store


@dataclass(frozen=True, slots=True)
class Decision:
    """`remaining`: requests left in the window. `wait_s`: seconds until the oldest counted one leaves it."""

    allowed: bool
    remaining: int
    wait_s: float

    @property
    def whole_wait_s(self) -> int:
        return max(1, math.ceil(self.wait_s))


class SlidingLog(Protocol):
    def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        """Count one request of this token if it is within the limit; one refused is not counted."""


class InProcess:
    """The log of one process. Tokens idle for a window are forgotten, once a window."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._logs: dict[int, deque[float]] = {}
        self._swept_at = clock()

    def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        with self._lock:
            now = self._clock()
            if now - self._swept_at >= window_s:
                self._logs = {key: log for key, log in self._logs.items() if log and now - log[-1] < window_s}
                self._swept_at = now
            log = self._logs.setdefault(token_id, deque())
            while log and now - log[0] >= window_s:
                log.popleft()
            allowed = len(log) < limit
            if allowed:
                log.append(now)
            # Beyond a limit that has been lowered, more than the oldest must leave before one may come.
            leaving = log[max(0, len(log) - limit)]
            # In this order it is never more than the window: the other sum may round up.
            return Decision(allowed, max(0, limit - len(log)), window_s - (now - leaving))


# A list of times in microseconds, oldest first. A log from the future by more than a window means that the server's
# clock was set back: it starts anew rather than locking the token out.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local newest = redis.call('LINDEX', KEYS[1], -1)
if newest and tonumber(newest) > now + window then redis.call('DEL', KEYS[1]) end
local oldest = redis.call('LINDEX', KEYS[1], 0)
while oldest and now - tonumber(oldest) >= window do
    redis.call('LPOP', KEYS[1])
    oldest = redis.call('LINDEX', KEYS[1], 0)
end
local count = redis.call('LLEN', KEYS[1])
local allowed = 0
if count < limit then
    redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[1], ARGV[2] * 1000)
    allowed, count, oldest = 1, count + 1, oldest or now
else
    oldest = redis.call('LINDEX', KEYS[1], count - limit)
end
return {allowed, math.max(0, limit - count), tonumber(oldest) + window - now}
"""


class Shared:
    """The log on Redis; while that is away, `fallback`."""

    def __init__(self, url: str, fallback: SlidingLog) -> None:
        self._url = url
        self._script = shared_store.client(url).register_script(_SCRIPT)
        self._fallback = fallback

    def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        try:
            allowed, remaining, wait_us = shared_store.ask(
                lambda: self._script(
                    keys=[f"callerid:rate:{token_id}"],
                    args=[limit, window_s],
                    client=shared_store.own_client(self._url),
                )
            )
        except shared_store.Away:
            return self._fallback.hit(token_id, limit, window_s)
        return Decision(bool(allowed), remaining, wait_us / 1_000_000)


_in_process = InProcess()
_log: SlidingLog = Shared(settings.REDIS_URL, _in_process) if settings.REDIS_URL else _in_process


class TokenThrottle(BaseThrottle):
    """Counts every request with a valid token, whatever its answer; the view tells its decision in two headers."""

    decision: Decision

    def allow_request(self, request: Request, view: APIView) -> bool:
        limit, window_s = settings.RATE_LIMIT
        self.decision = view.rate_decision = _log.hit(request.auth.pk, limit, window_s)  # type: ignore[attr-defined]
        return self.decision.allowed

    def wait(self) -> float:
        return self.decision.whole_wait_s


def headers(decision: Decision) -> dict[str, str]:
    """`RateLimit-Policy` and `RateLimit`, structured fields as in draft-ietf-httpapi-ratelimit-headers."""
    limit, window_s = settings.RATE_LIMIT
    return {
        "RateLimit-Policy": f'"token";q={limit};w={window_s}',
        "RateLimit": f'"token";r={decision.remaining};t={decision.whole_wait_s}',
    }
