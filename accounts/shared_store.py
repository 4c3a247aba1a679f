"""The Redis that all processes share, and what to do while it is away: each process counts alone for a while."""

import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings

if TYPE_CHECKING:
    import redis

log = logging.getLogger(__name__)

T = TypeVar("T")


class Away(Exception):
    """The store was left alone, or gave no answer: count in this process."""


def _redis() -> Any:
    """The library, imported where there is a Redis: it costs every process 10 MB and a command a tenth of its start."""
    import redis

    return redis


@lru_cache(maxsize=1)
def client(url: str) -> "redis.Redis":
    """One for all threads, with a pool."""
    return _client(url)


_of_thread = threading.local()


def own_client(url: str) -> "redis.Redis":
    """This thread's, with one connection, for what every search asks: a pool looks after each use whether something
    has arrived unasked. Connects when it is made. Raises redis.RedisError."""
    clients: dict[str, redis.Redis] = _of_thread.__dict__
    if url not in clients:
        clients[url] = _client(url, single_connection_client=True)
    return clients[url]


def _client(url: str, **more: Any) -> "redis.Redis":
    """Waits REDIS_TIMEOUT_S at most for the host's name, for the connection, and for an answer. One retry, only where a
    connection is closed: most likely while it was kept. If Redis ended while it counted a request, that may count
    twice."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from accounts.redis_connections import TCPConnection, TLSConnection

    if not url.startswith("unix:"):
        more["connection_class"] = TLSConnection if url.startswith("rediss:") else TCPConnection
    return redis.Redis.from_url(
        url,
        socket_timeout=settings.REDIS_TIMEOUT_S,
        socket_connect_timeout=settings.REDIS_TIMEOUT_S,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **more,
    )


class Outage:
    """Leaves the store alone for REDIS_PAUSE_S after a failure, and logs when it goes and when it is back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._away = False

    @property
    def pausing(self) -> bool:
        return time.monotonic() < self._until

    def noticed(self, error: "redis.RedisError") -> None:
        """A store that cannot be reached is away; one that answers with an error is there, and this key alone wrong."""
        if not isinstance(error, _redis().ConnectionError | _redis().TimeoutError):
            log.warning("Redis refused (%s): this process counts this key alone", type(error).__name__)
            return
        with self._lock:
            self._until = time.monotonic() + settings.REDIS_PAUSE_S
            if not self._away:
                log.warning("Redis is away (%s): this process counts its limits alone", type(error).__name__)
            self._away = True

    def ended(self) -> None:
        if self._away:
            with self._lock:
                self._away = False
            log.warning("Redis is back: limits are shared again")


outage = Outage()


def ask(question: Callable[[], T]) -> T:
    """What `question` gets from the store. Raises Away."""
    if outage.pausing:
        raise Away
    try:
        answer = question()
    except _redis().RedisError as error:
        outage.noticed(error)
        raise Away from error
    outage.ended()
    return answer
