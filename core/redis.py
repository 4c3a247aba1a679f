"""The Redis that all processes share, and the fallback while it is unavailable: each process counts on its own.

Functions import the library, so that it is loaded only where Redis is used: it costs 10 MB and a tenth of a command's
start.
"""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django.conf import settings

from core import loop, redis_sentinel

if TYPE_CHECKING:
    import redis.asyncio

log = logging.getLogger(__name__)

T = TypeVar("T")
Command = tuple[str | int | float | bytes, ...]


#: The sorted set of all keys of limits, by the time in microseconds of Redis's clock from which each may be deleted.
LIMITS = "callerid:limits"
_KEEP = """
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


class LimitScript:
    """A script that writes a limit, KEYS[1]. In `body`, `now` is Redis's time in microseconds.

    `keep(until_us)` keeps KEYS[1] without a TTL, because with a maxmemory-policy of volatile-… Redis evicts only keys
    with a TTL: cached answers, and never a limit. In place of the TTL, KEYS[2] (LIMITS) has the time, and each call
    deletes up to two keys whose time has passed.
    """

    def __init__(self, body: str) -> None:
        self.text = _KEEP + body
        self.sha = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


class RedisUnavailable(Exception):
    """Redis failed, or failed less than REDIS_RETRY_S ago and was not asked: use the state of this process. Its cause
    is the error of Redis's client."""


class Client:
    """The connections to Redis, on the event loop. The library's own client checks a connection at each use, which
    takes longer than the command: so they are taken from its pool once, and kept until they fail."""

    def __init__(self, url: str) -> None:
        self._pool = _pool(url)
        #: Replaced when connections are dropped: one that was taken from an earlier list is not kept.
        self._idle: list[redis.asyncio.Connection] = []

    async def execute(self, *command: str | int | float | bytes) -> Any:
        """The reply. Raises RedisError and OSError. Tries a second time if the connection turns out to be closed, most
        likely while it was idle; a request that Redis counted just before it stopped may count twice."""
        return (await self.execute_all([command]))[0]

    async def execute_all(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to several commands, sent at once. As `execute`."""
        import redis

        try:
            return await self._execute(commands)
        except redis.ConnectionError:
            return await self._execute(commands)

    async def run_script(self, script: LimitScript, key: str, *arguments: str | int | float) -> Any:
        """The reply of `script` for the limit `key`. As `execute`."""
        from redis.exceptions import NoScriptError

        parameters = (2, key, LIMITS, *arguments)
        try:
            return await self.execute("EVALSHA", script.sha, *parameters)
        except NoScriptError:
            return await self.execute("EVAL", script.text, *parameters)

    async def _execute(self, commands: Sequence[Command]) -> list[Any]:
        import hiredis

        idle = self._idle
        connection = idle.pop() if idle else await self._pool.get_connection()
        try:
            pack: Any = hiredis.pack_command
            packed = b"".join(map(pack, commands))
            await connection.send_packed_command(packed, check_health=False)
            replies = [await connection.read_response() for _ in commands]
        except BaseException as error:
            # The replies to further commands would be taken for those to the next ones.
            if concerns_one_command(error) and len(commands) == 1 and idle is self._idle:
                idle.append(connection)
            else:
                await self._drop(connection, idle)
            raise
        if idle is self._idle:
            idle.append(connection)
        else:
            await self._drop(connection, idle)
        return replies

    async def _drop(self, connection: "redis.asyncio.Connection", idle: "list[redis.asyncio.Connection]") -> None:
        """Close `connection` and all that were opened before: most likely they are broken too, or go to the same
        server. The next ones resolve the server's name again, or ask the Sentinels."""
        dropped = [connection, *idle]
        idle.clear()
        if idle is self._idle:
            self._idle = []
        for each in dropped:
            await each.disconnect(nowait=True)
            await self._pool.release(each)


def _pool(url: str) -> "redis.asyncio.ConnectionPool":
    """Of connections to the server, or to the Sentinels' master."""
    from redis.asyncio import ConnectionError, ConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
    from redis.backoff import NoBackoff

    options: dict[str, Any] = {
        # By default the library limits each wait by a task and a timer of its own, and fails with more than 100
        # connections. `call_on_loop` limits the time; how many searches run is limited before they get here.
        "socket_timeout": None,
        "max_connections": 2**31,
        # Once, and only when the connection turns out to be closed.
        "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
    }
    if not (master := redis_sentinel.parse(url)):
        return ConnectionPool.from_url(url, **options)
    # One that does not answer leaves time for the others and for the master.
    timeout_s = settings.REDIS_TIMEOUT_S / (len(master.sentinels) + 1)
    limited = {**options, "socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    sentinels = Sentinel([])
    sentinels.sentinels = [Redis.from_url(sentinel, **limited) for sentinel in master.sentinels]
    return SentinelConnectionPool(master.name, sentinels, **{**options, **redis_sentinel.options(master)})


@lru_cache(maxsize=1)
def client(url: str) -> Client:
    """The client of this process. `call_on_loop` limits its time."""
    return Client(url)


def concerns_one_command(error: BaseException) -> bool:
    """Whether this is an error reply that says nothing about the server: it has not cached the script, or the key's
    value is of another type.

    After any other one the server may be the wrong one, or no longer the right one: a demoted primary replies READONLY,
    one that is cut off from its replicas NOREPLICAS, others MISCONF, OOM, LOADING, MASTERDOWN or CLUSTERDOWN, to each
    command on connections that stay open. A list of such codes would not do: Redis before version 7 replies
    `ERR Error running script (…): -READONLY …`.
    """
    from redis.exceptions import NoScriptError, ResponseError

    return isinstance(error, NoScriptError) or (isinstance(error, ResponseError) and "WRONGTYPE" in str(error))


_CODE = re.compile(r"([A-Z]+) ")
_CODE_IN_SCRIPT = re.compile(r"-([A-Z]+) ")


def error_code(error: BaseException) -> str:
    """The code of an error reply, such as READONLY; for other errors, their type."""
    from redis.exceptions import ResponseError

    code: str | None = getattr(error, "status_code", None)
    if isinstance(error, ResponseError):
        text = str(error)
        if code is None and (first := _CODE.match(text)):  # the library does not know it
            return first[1]
        if code in (None, "ERR") and (wrapped := _CODE_IN_SCRIPT.search(text)):
            return wrapped[1]
    return code or type(error).__name__


class Availability:
    """Whether Redis is used: not for REDIS_RETRY_S after it failed. Logs when it fails and when it is back."""

    def __init__(self) -> None:
        self._retry_at = 0.0
        #: Why it failed, until it works again.
        self.error: BaseException | None = None

    @property
    def unavailable(self) -> bool:
        return time.monotonic() < self._retry_at

    def record_failure(self, error: BaseException) -> None:
        """Unavailable from now, unless the error concerns one command, and no other."""
        if concerns_one_command(error):
            log.warning("Redis replied with an error (%s): this process counts this key on its own", error_code(error))
            return
        self._retry_at = time.monotonic() + settings.REDIS_RETRY_S
        if self.error is None:
            log.warning("Redis is unavailable (%s): this process counts its limits on its own", error_code(error))
        self.error = error

    def record_success(self) -> None:
        if self.error is not None:
            self.error = None
            log.warning("Redis is available again: limits are shared")


#: As this process knows it. Tests replace it.
availability = Availability()


def call(operation: Callable[[Client], Awaitable[T]]) -> T:
    """As `call_on_loop`, for code that is not on the loop."""
    return loop.run(call_on_loop(operation))


async def call_on_loop(operation: Callable[[Client], Awaitable[T]]) -> T:
    """The result of `operation`, which uses the client that it is given, within REDIS_TIMEOUT_S. Raises
    RedisUnavailable."""
    import redis

    if availability.unavailable:
        raise RedisUnavailable from availability.error
    redis_client = client(settings.REDIS_URL)  # the first call imports the library
    task = cast("asyncio.Task[T]", asyncio.current_task())
    limit = loop.Limit(settings.REDIS_TIMEOUT_S, task.cancel)
    try:
        result = await operation(redis_client)
    except (redis.RedisError, OSError) as error:
        availability.record_failure(error)
        raise RedisUnavailable from error
    except asyncio.CancelledError:
        if not limit.reached or task.uncancel():  # somebody else has cancelled the task
            raise
        timeout = TimeoutError(f"no reply within {settings.REDIS_TIMEOUT_S} s")
        availability.record_failure(timeout)
        raise RedisUnavailable from timeout
    finally:
        limit.cancel()
    availability.record_success()
    return result
