"""The rate limit: how many requests of one token are accepted in any window (tokens.rate_limit), by an exact sliding
window log.

Each process keeps its own log by a monotonic clock. With Redis, one script keeps another by Redis's clock, in one round
trip, for all processes and hosts, and a request must be within both: so whatever Redis forgets, and while it is
unavailable, a process never accepts more than the limit.
"""

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from django.conf import settings

from core import redis
from core.attempt_limits import FALLBACKS

#: How often the tokens are dropped that have no request in their window.
SWEEP_INTERVAL_S = 60.0

# A list of times in microseconds, oldest first. A newest entry more than a window in the future means that the server's
# clock was set back: the log is deleted, so that the token is not locked out. Expired times are removed in growing
# batches: 100,000 block Redis for 0.04 s, one by one it would be 0.2 s.
_SCRIPT = redis.LimitScript("""
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000000
local newest = redis.call('LINDEX', KEYS[1], -1)
if newest and tonumber(newest) > now + window then redis.call('DEL', KEYS[1]) end
local batch, oldest, expired = 1
repeat
    local times = redis.call('LRANGE', KEYS[1], 0, batch - 1)
    expired = 0
    while times[expired + 1] and now - tonumber(times[expired + 1]) >= window do expired = expired + 1 end
    oldest = times[expired + 1]
    if expired > 0 then redis.call('LTRIM', KEYS[1], expired, -1) end
    batch = math.min(2 * batch, 1000)
until oldest or expired == 0
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
""")


class Decision(NamedTuple):
    """`remaining`: requests left in the window. `wait_s`: whole seconds until the oldest counted one leaves it."""

    allowed: bool
    remaining: int
    wait_s: int


class TokenLog:
    """The accepted requests of each token: in this process, and on Redis if REDIS_URL is set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: By token, when each of its requests leaves the window, in order.
        self._ends: dict[int, list[float]] = {}
        self._sweep_at = clock() + SWEEP_INTERVAL_S

    async def hit(self, token_id: int, limit: int, window_s: int) -> Decision:
        """Count one request of this token if it is within the limit; a refused request is not counted."""
        now = self._clock()
        if now >= self._sweep_at:
            self._ends = {token: ends for token, ends in self._ends.items() if ends and ends[-1] > now}
            self._sweep_at = now + SWEEP_INTERVAL_S
        ends = self._ends.setdefault(token_id, [])
        del ends[: bisect_right(ends, now)]
        if len(ends) >= limit:
            # After the limit was lowered, more than the oldest request must leave before one is accepted. Redis has
            # counted each of them later than this process, at most by its timeout.
            wait_s = ends[len(ends) - limit] - now + (settings.REDIS_TIMEOUT_S if settings.REDIS_URL else 0)
            return Decision(False, 0, _whole(wait_s, window_s))
        # Counted here first: concurrent requests cannot pass together when Redis has forgotten the others.
        ends.append(end := now + window_s)
        own = Decision(True, limit - len(ends), _whole(ends[0] - now, window_s))
        if not settings.REDIS_URL:
            return own
        try:
            allowed, remaining, wait_us = await redis.call_on_loop(partial(count_on_redis, token_id, limit, window_s))
        except redis.RedisUnavailable:
            FALLBACKS.inc("requests")
            return own
        if not allowed:
            index = bisect_left(ends, end)
            if ends[index : index + 1] == [end]:  # else it has left the window
                del ends[index]
        return Decision(bool(allowed), min(remaining, own.remaining), _whole(wait_us / 1_000_000, window_s))


def _whole(wait_s: float, window_s: int) -> int:
    """`wait_s` in whole seconds, at least 1 and at most the window."""
    return min(window_s, max(1, math.ceil(wait_s)))


async def count_on_redis(name: str | int, limit: int, window_s: int, client: redis.Client) -> list[int]:
    """The script's reply: 1 if the request was counted, otherwise 0; requests left; microseconds to wait."""
    reply: list[int] = await client.run_script(_SCRIPT, f"callerid:rate:{name}", limit, window_s)
    return reply


#: This process's. Tests replace it.
token_log = TokenLog()
