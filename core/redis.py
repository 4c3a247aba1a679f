"""The Redis that all processes share, and the fallback while it is unavailable: each process counts on its own.

Functions import the library, so that it is loaded only where Redis is used: it costs 10 MB and a tenth of a command's
start.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)

T = TypeVar("T")


#: The sorted set of all keys of limits, by the time in microseconds of Redis's clock from which each may be deleted.
LIMITS = "callerid:limits"
#: The beginning of scripts that write a limit. `keep(until_us)` keeps KEYS[1] without a TTL, because with a
#: maxmemory-policy of volatile-… Redis evicts only keys with a TTL: cached answers, and never a limit. In place of the
#: TTL, KEYS[2] (LIMITS) has the time, and each call deletes up to two keys whose time has passed.
LIMIT_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function keep(until_us)
    redis.call('PERSIST', KEYS[1])
    redis.call('ZADD', KEYS[2], until_us, KEYS[1])
    for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 2)) do
        redis.call('DEL', key)
        redis.call('ZREM', KEYS[2], key)
    end
end
"""


class RedisUnavailable(Exception):
    """Redis failed, or failed less than REDIS_PAUSE_S ago and was not asked: use the state of this process."""


@lru_cache(maxsize=1)
def client(url: str) -> "redis.Redis":
    """The client of all threads, with a connection pool."""
    return _client(url, max_connections=2**31)  # the threads limit them; redis-py's limit would raise ConnectionError


thread_clients = threading.local()


def thread_client(url: str) -> "redis.Redis":
    """This thread's client, with one connection, for what every search calls: a pool checks the connection at each use.

    Connects when it is created: use it in `call`.
    """
    clients: dict[str, redis.Redis] = thread_clients.__dict__
    if url not in clients:
        clients[url] = _client(url, single_connection_client=True)
    return clients[url]


def _client(url: str, **options: Any) -> "redis.Redis":
    """A client that waits at most REDIS_TIMEOUT_S each for DNS, for the connection and for a reply.

    It retries once, and only when the connection turns out to be closed, most likely while it was idle. A request that
    Redis counted just before it stopped may count twice.
    """
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from core import redis_connections, redis_sentinel

    if master := redis_sentinel.parse(url):
        sentinels = redis_connections.LockedSentinel([_client(sentinel) for sentinel in master.sentinels])
        url, options["find_master"] = master.url, partial(sentinels.discover_master, master.name)
    if not url.startswith("unix:"):
        tls = url.startswith("rediss:")
        options["connection_class"] = redis_connections.TLSConnection if tls else redis_connections.TCPConnection
    return redis.Redis.from_url(
        url,
        socket_timeout=settings.REDIS_TIMEOUT_S,
        socket_connect_timeout=settings.REDIS_TIMEOUT_S,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **options,
    )


class Availability:
    """Whether Redis is used: not for REDIS_PAUSE_S after it failed. Logs when it fails and when it is back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._failed = False

    @property
    def paused(self) -> bool:
        return time.monotonic() < self._retry_at

    def record_failure(self, error: "redis.RedisError") -> None:
        """Pause, unless the error concerns one key (its value is of another type): the others are not affected.

        Besides errors of the connection there are replies such as READONLY, OOM and MISCONF.
        """
        name = type(error).__name__
        if "WRONGTYPE" in str(error):
            log.warning("Redis replied with an error (%s): this process counts this key on its own", name)
            return
        with self._lock:
            self._retry_at = time.monotonic() + settings.REDIS_PAUSE_S
            if not self._failed:
                log.warning("Redis is unavailable (%s): this process counts its limits on its own", name)
            self._failed = True

    def record_success(self) -> None:
        if self._failed:
            with self._lock:
                self._failed = False
            log.warning("Redis is available again: limits are shared")


#: As this process knows it. Tests replace it.
availability = Availability()


def call(operation: Callable[[], T]) -> T:
    """The result of `operation`, which uses `client` or `thread_client`. Raises RedisUnavailable."""
    import redis

    if availability.paused:
        raise RedisUnavailable
    try:
        result = operation()
    except redis.RedisError as error:
        availability.record_failure(error)
        raise RedisUnavailable from error
    availability.record_success()
    return result


def eviction_problem() -> str | None:
    """Why Redis may evict limits, or refuse to store them, when cached answers have filled its memory, and what to do;
    None if it does neither, or does not say (INFO is refused). Raises RedisUnavailable."""
    import redis

    def memory() -> dict[str, Any]:
        try:
            return client(settings.REDIS_URL).info("memory")
        except redis.ResponseError:
            return {}

    found = call(memory)
    policy = str(found.get("maxmemory_policy", ""))
    if policy.startswith("allkeys-"):
        consequence = "Redis may evict rate limits, which then start anew"
    elif policy == "noeviction" and found.get("maxmemory"):
        consequence = (
            "when cached answers have filled the memory, limits cannot be stored, and each process counts alone"
        )
    else:
        return None
    return f"maxmemory-policy is {policy}: {consequence}. Set it to volatile-lru (docs/reliability.md)."
