"""The Redis that all processes share, and the fallback while it is unavailable: each process counts on its own.

Functions import the library, so that it is loaded only where Redis is used: it costs 10 MB and a tenth of a command's
start.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.conf import settings

from core import loop, redis_sentinel

if TYPE_CHECKING:
    import redis
    import redis.asyncio

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
    """Redis failed, or failed less than REDIS_RETRY_S ago and was not asked: use the state of this process."""


@lru_cache(maxsize=1)
def client(url: str) -> "redis.Redis":
    """The client of the console's pages and of commands. It waits at most REDIS_TIMEOUT_S each for a connection and
    for a reply, of each Sentinel too."""
    import redis
    from redis.sentinel import Sentinel

    found: redis.Redis = _client(url, redis.Redis, Sentinel, retry=_retry(), **_timeouts(settings.REDIS_TIMEOUT_S))
    return found


def _client(url: str, kind: Any, sentinel_kind: Any, *, is_limited: bool = False, **options: Any) -> Any:
    """A client of the library's class `kind`, of the server or of the Sentinels' master. `is_limited`: all that a
    caller waits for has REDIS_TIMEOUT_S together."""
    if not (master := redis_sentinel.parse(url)):
        return kind.from_url(url, **options)
    # Then one that does not answer leaves time for the others and for the master.
    parts = len(master.sentinels) + 1 if is_limited else 1
    sentinels = sentinel_kind([])
    sentinel_options = options | _timeouts(settings.REDIS_TIMEOUT_S / parts)
    sentinels.sentinels = [kind.from_url(sentinel, **sentinel_options) for sentinel in master.sentinels]
    return sentinels.master_for(master.name, **{**options, **redis_sentinel.options(master)})


def _timeouts(timeout_s: float) -> dict[str, Any]:
    return {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}


class LoopClient:
    """The connections of searches, on the event loop. The library's own client checks a connection at each use, which
    takes longer than the command: so they are taken from its pool once, and kept until they fail."""

    def __init__(self, url: str) -> None:
        import redis.asyncio
        from redis.asyncio.sentinel import Sentinel

        # By default the library limits each wait by a task and a timer of its own, and fails with more than 100
        # connections. `call_on_loop` limits the time; how many searches run is limited before they get here.
        unlimited: dict[str, Any] = {"socket_timeout": None, "max_connections": 2**31}
        retry = _retry(on_loop=True)
        client = _client(url, redis.asyncio.Redis, Sentinel, is_limited=True, retry=retry, **unlimited)
        self._pool = client.connection_pool
        self._idle: list[redis.asyncio.Connection] = []

    async def execute(self, *command: str | int | float | bytes) -> Any:
        """The reply. Raises RedisError and OSError. Tries a second time if the connection turns out to be closed, most
        likely while it was idle; a request that Redis counted just before it stopped may count twice."""
        return (await self.execute_all([command]))[0]

    async def execute_all(self, commands: Sequence[tuple[str | int | float | bytes, ...]]) -> list[Any]:
        """The replies to several commands, sent at once. As `execute`."""
        import redis

        try:
            return await self._execute(commands)
        except redis.ConnectionError:
            return await self._execute(commands)

    async def _execute(self, commands: Sequence[tuple[str | int | float | bytes, ...]]) -> list[Any]:
        import hiredis
        import redis

        connection = self._idle.pop() if self._idle else await self._pool.get_connection()
        try:
            pack: Any = hiredis.pack_command
            packed = b"".join(map(pack, commands))
            await connection.send_packed_command(packed, check_health=False)
            replies = [await connection.read_response() for _ in commands]
        except BaseException as error:
            refused = isinstance(error, redis.ResponseError) and not isinstance(error, redis.ReadOnlyError)
            if refused and len(commands) == 1:  # the replies to further commands would be taken for the next ones
                self._idle.append(connection)
                raise
            # The others are most likely broken too, or lead to a server that has become a replica.
            broken, self._idle = [connection, *self._idle], []
            for each in broken:
                await each.disconnect(nowait=True)
                await self._pool.release(each)
            raise
        self._idle.append(connection)
        return replies


@lru_cache(maxsize=1)
def loop_client(url: str) -> LoopClient:
    """The client of searches. `call_on_loop` limits its time."""
    return LoopClient(url)


def _retry(*, on_loop: bool = False) -> Any:
    """Once, and only when the connection turns out to be closed."""
    import redis
    from redis.asyncio.retry import Retry as LoopRetry
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    kind: Any = LoopRetry if on_loop else Retry
    return kind(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))


class Availability:
    """Whether Redis is used: not for REDIS_RETRY_S after it failed. Logs when it fails and when it is back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._failed = False

    @property
    def unavailable(self) -> bool:
        return time.monotonic() < self._retry_at

    def record_failure(self, error: BaseException) -> None:
        """Unavailable from now, unless the error concerns one key (its value is of another type), and no other.

        Besides errors of the connection there are replies such as READONLY, OOM and MISCONF.
        """
        name = type(error).__name__
        if "WRONGTYPE" in str(error):
            log.warning("Redis replied with an error (%s): this process counts this key on its own", name)
            return
        with self._lock:
            self._retry_at = time.monotonic() + settings.REDIS_RETRY_S
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
    """The result of `operation`, which uses `client`. Raises RedisUnavailable."""
    import redis

    if availability.unavailable:
        raise RedisUnavailable
    try:
        result = operation()
    except redis.RedisError as error:
        availability.record_failure(error)
        raise RedisUnavailable from error
    availability.record_success()
    return result


async def call_on_loop(operation: Callable[[LoopClient], Awaitable[T]]) -> T:
    """The result of `operation`, which uses the client that it is given, within REDIS_TIMEOUT_S. Raises
    RedisUnavailable."""
    import redis

    if availability.unavailable:
        raise RedisUnavailable
    task = cast("asyncio.Task[T]", asyncio.current_task())
    limit = loop.Limit(settings.REDIS_TIMEOUT_S, task.cancel)
    try:
        result = await operation(loop_client(settings.REDIS_URL))
    except (redis.RedisError, OSError) as error:
        availability.record_failure(error)
        raise RedisUnavailable from error
    except asyncio.CancelledError:
        if not limit.reached or task.uncancel():  # somebody else has cancelled the task
            raise
        timeout = TimeoutError()
        availability.record_failure(timeout)
        raise RedisUnavailable from timeout
    finally:
        limit.cancel()
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
