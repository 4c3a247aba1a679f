"""The service's asynchronous functions for tests, which call them and get the result. Their statements run on the
test's own database connection, in its transaction."""

import gc
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from redis.asyncio.sentinel import SentinelConnectionPool

import lookup.search
from accounts import charging, idempotency, tokens
from core import loop, redis
from lookup.answers import Answer, Found, NotFound
from lookup.connectors.base import Connector
from lookup.rate_limit import Decision, TokenLog
from lookup.vendors import cache
from phonebook import number_query

P = ParamSpec("P")
T = TypeVar("T")


def _waiting(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return loop.run(function(*args, **kwargs))

    return call


search = _waiting(lookup.search.search)
charge = _waiting(charging.charge)
answer_without_charge = _waiting(charging.answer_without_charge)
verify = _waiting(tokens.verify)
begin = _waiting(idempotency.begin)
release = _waiting(idempotency.release)
fetch_rows = _waiting(number_query.fetch_rows)


def hit(log: TokenLog, token_id: int, limit: int, window_s: int) -> Decision:
    return loop.run(log.hit(token_id, limit, window_s))


def answer_of(connector: Connector, number: str) -> Answer:
    """What a built-in connector answers."""
    return loop.run(connector.lookup(number, timeout_s=1))  # type: ignore[arg-type]


def cached(key: str, answers: cache.AnswerCache) -> Answer | None:
    return loop.run(answers.get([key])).get(key)


def put(answers: cache.AnswerCache, key: str, answer: Found | NotFound, ttl_s: float) -> None:
    async def put_and_flush() -> None:
        answers.put(key, answer, ttl_s)
        await answers.flush()

    loop.run(put_and_flush())


def disconnect_from_redis() -> None:
    """The next use connects again, with the settings of that moment."""

    async def disconnect(client: redis.Client) -> None:
        await client._pool.disconnect(inuse_connections=True)
        client._idle.clear()
        if isinstance(client._pool, SentinelConnectionPool):
            for sentinel in client._pool.sentinel_manager.sentinels:
                await sentinel.aclose()

    if redis.client.cache_info().currsize:
        for client in [each for each in gc.get_objects() if type(each) is redis.Client]:
            loop.run(disconnect(client))
    redis.client.cache_clear()
