"""The contract of a connector, which a slot is bound to.

To add one, write a class and bind it with `SOURCE_A=your.module.YourConnector` (or with others:
`directory,your.module.YourConnector`). One object serves a whole process: its event loop and all its threads.
"""

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from core import admission, loop
from core.database_errors import describe
from lookup.answers import Answer, Failed
from lookup.connectors.blocking import watched

log = logging.getLogger(__name__)


class Connector(ABC):
    """Looks numbers up in one data set or at one vendor."""

    #: The fields that it can supply: some of `name`, `location`, `spam`.
    fields: frozenset[str]
    #: Whether it calls another service. A remote connector runs in parallel with the other slot, behind a guard (cache,
    #: circuit breaker, concurrency limit), and must not use the ORM. A local `def lookup` runs in a thread, may use
    #: the ORM, and cannot be interrupted.
    remote: bool

    # For remote connectors:

    #: Seconds for which Found and NotFound are cached. 0: not at all; at most a year.
    hit_ttl_s: float = 3600
    miss_ttl_s: float = 300
    #: The number of calls at the same time. Further ones wait for a third of SEARCH_DEADLINE_S at most, then fail.
    concurrency: int = 16
    #: How long a search waits, within its deadline: more than 0 seconds. None: until the deadline.
    max_wait_s: float | None = None
    #: Must change when answers may change: cached answers of another version are not used.
    version: str = ""

    def covers(self, number: str) -> bool:
        """Whether it may know `number`; if not, it is not called and counts as NotFound. Must be fast and pure."""
        return True

    @abstractmethod
    def lookup(self, number: str, *, timeout_s: float) -> Answer | Awaitable[Answer]:
        """Look `number` up (digits with country code). An exception counts as Failed.

        `timeout_s`: of a local connector, what is left of the search's deadline; of a remote one, how long the call may
        take (CALL_LIFETIME_S). Remote connectors may define it as `async def`: it runs on the event loop of all
        searches, which it must not block, and is cancelled after `timeout_s`.
        """

    async def close(self) -> None:
        """Close what a remote connector has open."""
        return


async def call_connector(name: str, connector: Connector, number: str, *, timeout_s: float) -> Answer:
    """The connector's answer; exceptions and wrong types become Failed. `name`: the connector's, for the log.

    An `async def lookup` of a remote connector is cancelled after `timeout_s`. A `def lookup` runs in a thread, which
    nothing can interrupt, and that of a local connector with Django's database connection.
    """
    lookup: Callable[[], Any] = partial(connector.lookup, number, timeout_s=timeout_s)
    if not inspect.iscoroutinefunction(connector.lookup):
        if connector.remote:
            return await checked(name, partial(loop.run_in_thread, partial(_returned, lookup)))
        with admission.searches.released():
            return await checked(name, partial(loop.run_with_connection, partial(_returned, lookup)))
    if not connector.remote:
        return await checked(name, lookup)
    try:
        async with asyncio.timeout(timeout_s):
            return await checked(name, partial(watched, name, lookup))
    except TimeoutError:
        return Failed("unavailable", f"no complete reply within {timeout_s:g} s")


async def checked(name: str, call: Callable[[], Awaitable[object]]) -> Answer:
    """The answer that `call` returns; exceptions and wrong types become Failed. `name`: as in `call_connector`."""
    try:
        answer = await call()
    except BaseException as error:  # asyncio.CancelledError and SystemExit are not Exceptions
        if isinstance(error, asyncio.CancelledError) and cast(asyncio.Task[Any], asyncio.current_task()).cancelling():
            raise  # this task is cancelled; otherwise the connector raised it
        # The message may contain a number, a name or a key: log the type only.
        log.warning("source failed: connector=%s error=%s", name, describe(error))
        return Failed("error", f"it raised {type(error).__name__}")
    if not isinstance(answer, Answer):
        log.warning("source failed: connector=%s error=wrong answer type", name)
        return Failed("error", "it returned neither Found, NotFound nor Failed")
    return answer


def _returned(lookup: Callable[[], object]) -> object:
    """What `lookup` returns. StopIteration becomes RuntimeError, as in a coroutine: no future accepts it."""
    try:
        return lookup()
    except StopIteration as error:
        raise RuntimeError from error


def covers(name: str, connector: Connector, number: str) -> bool:
    """`Connector.covers`; True where it raises."""
    try:
        return connector.covers(number)
    except Exception as error:
        log.warning("coverage failed: connector=%s error=%s", name, describe(error))
        return True
