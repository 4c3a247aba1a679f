"""The rate limit: at most RATE_LIMIT (of a test token TEST_RATE_LIMIT) accepted requests by one token in any window, by
an exact sliding window log.

Each process keeps its own log by a monotonic clock. With Redis, one script keeps another by Redis's clock, in one round
trip, for all processes and hosts, and a request must be within both: so whatever Redis forgets, and while it is
unavailable, a process never accepts more than the limit.
"""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import cast

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from accounts.models import ActiveToken
from core import redis, tracing
from core.throttling import FALLBACKS


@dataclass(frozen=True, slots=True)
class Decision:
    """`remaining`: requests left in the window. `wait_s`: seconds until the oldest counted request leaves it.
    `counted_at`: when, by the clock of a process's log."""

    allowed: bool
    remaining: int
    wait_s: float
    counted_at: float = 0.0

    @property
    def whole_wait_s(self) -> int:
        return max(1, math.ceil(self.wait_s))


class InProcessLog:
    """The log of one process. Once per window, it drops the tokens without a request in that window; of different
    windows, the longest counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logs: dict[int, list[float]] = {}
        self._swept_at, self._longest_s = clock(), 0

    async def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        """Count one request of this token if it is within the limit; a refused request is not counted."""
        now = self._clock()
        self._longest_s = max(self._longest_s, window_s)
        if now - self._swept_at >= self._longest_s:
            self._logs = {key: log for key, log in self._logs.items() if log and now - log[-1] < self._longest_s}
            self._swept_at = now
        log = self._logs.setdefault(token_id, [])
        expired = 0
        while expired < len(log) and now - log[expired] >= window_s:
            expired += 1
        del log[:expired]
        allowed = len(log) < limit
        if allowed:
            log.append(now)
        # After the limit was lowered, more than the oldest request must leave before one is accepted.
        leaving = log[max(0, len(log) - limit)]
        # In this order the result never exceeds the window; (leaving + window_s) - now may round up.
        return Decision(allowed, max(0, limit - len(log)), window_s - (now - leaving), now)

    def cancel(self, token_id: int, counted_at: float) -> None:
        """Uncount the request that `hit` has counted then: no other, whose time could be later."""
        with suppress(ValueError):  # it has left the window
            self._logs.get(token_id, []).remove(counted_at)


# A list of times in microseconds, oldest first. A newest entry more than a window in the future means that the server's
# clock was set back: the log is deleted, so that the token is not locked out.
_SCRIPT = (
    redis.LIMIT_SCRIPT
    + """
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
    keep(now + window)
    allowed, count, oldest = 1, count + 1, oldest or now
else
    oldest = redis.call('LINDEX', KEYS[1], count - limit)
end
return {allowed, math.max(0, limit - count), tonumber(oldest) + window - now}
"""
)


class RedisLog:
    """The log on Redis together with `own`, the log of this process."""

    def __init__(self, own: InProcessLog) -> None:
        self._own = own
        self._script_sha = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()

    async def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        # Counted here first: concurrent requests cannot pass together when Redis has forgotten the others.
        own = await self._own.hit(token_id, limit, window_s)
        if not own.allowed:
            # Redis has counted each of them later, at most by its timeout.
            return Decision(False, 0, min(window_s, own.wait_s + settings.REDIS_TIMEOUT_S))
        try:
            allowed, remaining, wait_us = await redis.call_on_loop(partial(self._count, token_id, limit, window_s))
        except redis.RedisUnavailable:
            FALLBACKS.inc("requests")
            return own
        if not allowed:
            self._own.cancel(token_id, own.counted_at)
        return Decision(bool(allowed), min(remaining, own.remaining), wait_us / 1_000_000)

    async def _count(self, token_id: int, limit: int, window_s: int, client: redis.LoopClient) -> list[int]:
        from redis.exceptions import NoScriptError

        arguments = (2, f"callerid:rate:{token_id}", redis.LIMITS, limit, window_s)
        try:
            reply: list[int] = await client.execute("EVALSHA", self._script_sha, *arguments)
        except NoScriptError:
            reply = await client.execute("EVAL", _SCRIPT, *arguments)
        return reply


def create_log() -> InProcessLog | RedisLog:
    """The log that REDIS_URL calls for."""
    return RedisLog(InProcessLog()) if settings.REDIS_URL else InProcessLog()


#: This process's. Tests replace it.
token_log = create_log()


def rate_limit_header(remaining: int, wait_s: int) -> str:
    """The value of `RateLimit`."""
    return f'"token";r={remaining};t={wait_s}'


class TokenThrottle(BaseThrottle):
    """Counts every request with a valid token, whatever its outcome, and puts the decision into two headers."""

    decision: Decision

    async def allow_request(self, request: Request, view: APIView) -> bool:  # type: ignore[override]
        token = cast(ActiveToken, request.auth)
        limit, window_s = settings.TEST_RATE_LIMIT if token.is_test else settings.RATE_LIMIT
        with tracing.span("rate limit"):
            self.decision = await token_log.hit(token.pk, limit, window_s)
        # Structured fields as in draft-ietf-httpapi-ratelimit-headers.
        view.headers["RateLimit-Policy"] = f'"token";q={limit};w={window_s}'
        view.headers["RateLimit"] = rate_limit_header(self.decision.remaining, self.decision.whole_wait_s)
        return self.decision.allowed

    def wait(self) -> float:
        return self.decision.whole_wait_s
