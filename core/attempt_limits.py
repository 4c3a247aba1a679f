"""The failed-authentication limit: django-ratelimit counts attempts by client address or other key.

Only failed attempts count for API tokens, so that the failures of another client behind the same address never refuse a
valid token. For logins every attempt counts.
"""

import unicodedata
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.http import HttpRequest
from django_ratelimit.core import get_usage
from django_ratelimit.exceptions import Ratelimited

from core import metrics, redis

MAX_WINDOW_S = 3600
MAX_USER_NAME = 150

FAILED_AUTHENTICATIONS = metrics.Counter(
    "callerid_failed_authentications",
    "API tokens, passwords and codes of the console, and links to customer pages, that were refused.",
    ("credential",),
    zeros=[("token",), ("password",), ("code",), ("link",)],
)
FALLBACKS = metrics.Counter(
    "callerid_rate_limit_fallbacks",
    "Requests and attempts that a process counted on its own, because Redis was unavailable.",
    ("limit",),
    zeros=[("requests",), ("attempts",)],
)


class TooManyAttempts(Ratelimited):
    """The client address or the user name is over its limit; `wait_s` whole seconds until its window ends. `group`:
    what is limited, for the log."""

    def __init__(self, wait_s: int, group: str = "") -> None:
        super().__init__(wait_s)
        self.wait_s, self.group = wait_s, group


def count_attempt(
    request: HttpRequest,
    *,
    group: str,
    rate: tuple[int, int],
    key: str | Callable[[str, HttpRequest], str] = "ip",
) -> None:
    """Count one attempt of this client address, or of django-ratelimit's `key`; `rate`: attempts and seconds.

    Only a hash of the key is stored. Raises TooManyAttempts beyond the rate.
    """
    usage = get_usage(request, group=group, key=key, rate=rate, increment=True)
    if usage is not None and usage["should_limit"]:
        raise TooManyAttempts(max(1, usage["time_left"]), group)


def user_name(group: str, request: HttpRequest) -> str:
    """django-ratelimit's key for logins: the posted `username` without case and surrounding spaces, NFKC-normalised.

    Django takes such spellings for one user, and a database may ignore case.
    """
    # Cut first, because normalising a long text takes long; Django's names are not longer.
    name = request.POST.get("username", "").strip()[:MAX_USER_NAME]
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


_ADD = redis.LimitScript("""
if not redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 0 end
keep(now + ARGV[2] * 1000000)
return 1
""")


class RedisOrLocalCache(LocMemCache):
    """The operations that django-ratelimit needs, on Redis; in this process while that is unavailable.

    Django's own Redis cache pickles what is not an integer, sets a TTL, by which Redis may evict a limit, and raises
    when Redis is unavailable. A counter may be kept longer than its timeout: django-ratelimit's keys contain the end of
    their window.
    """

    def add(self, key: str, value: int, timeout: float | None = None, version: int | None = None) -> bool:
        name, ttl_s = self.make_key(key, version), int(timeout or MAX_WINDOW_S)
        try:
            return bool(redis.call(lambda client: client.run_script(_ADD, name, value, ttl_s)))
        except redis.RedisUnavailable:
            if added := super().add(key, value, ttl_s):
                FALLBACKS.inc("attempts")
            return added

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        name = self.make_key(key, version)
        try:
            return int(redis.call(lambda client: client.execute("INCRBY", name, delta)))
        except redis.RedisUnavailable:
            FALLBACKS.inc("attempts")
            super().add(key, 0, MAX_WINDOW_S)  # where Redis failed between `add` and `incr`
            return super().incr(key, delta)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        name = self.make_key(key, version)
        try:
            value = redis.call(lambda client: client.execute("GET", name))
        except redis.RedisUnavailable:
            value = super().get(key)
        return default if value is None else int(value)
