"""Helpers of the tests that search with remote sources."""

import asyncio
import functools
import time
from collections.abc import Callable
from concurrent.futures import Future

from django.conf import settings

from core import loop
from lookup.answers import Answer
from lookup.connectors import registry
from lookup.connectors.base import Connector, call_connector
from lookup.vendors import preset
from lookup.vendors.guard import Guard
from lookup.vendors.json_api import JsonApi
from tests.api import NUMBER
from tests.awaited import search


@functools.cache
def shipped_preset(name: str) -> preset.Preset:
    """Loaded once: proving that its rules recognize no proxy takes 50 ms."""
    return preset.load(preset.SHIPPED / f"{name}.toml")


def connector_of(loaded: preset.Preset) -> JsonApi:
    """With a made-up value for each secret, in base64 as keys of signatures are."""
    return JsonApi(loaded, dict.fromkeys(loaded.auth.names, "c2VjcmV0"))


def words(number: str = NUMBER) -> tuple[str, str]:
    slots = search(number).slots
    return slots["source_a"].status, slots["source_b"].status


def guard_of(name: str) -> Guard:
    guard = registry.get_source(name).guard
    assert guard is not None
    return guard


def in_flight(guard: Guard) -> int:
    """Number of calls that have not ended."""
    return sum(not call.done() for call in guard.calls.values())


def call(
    guard: Guard, number: str = NUMBER, *, cache_version: str = "", wait_s: float = 20
) -> Future[tuple[Answer, bool]]:
    """Ask the guard, as a search does that found nothing in the cache: the answer, and whether the call was joined."""
    deadline = time.monotonic() + wait_s
    lookup = guard.lookup(number, key=guard.key(number, cache_version), deadline=deadline)
    return asyncio.run_coroutine_threadsafe(lookup, loop._get())


def answer_of(connector: Connector, number: str) -> Answer:
    """The connector's own answer, without its guard."""

    async def call_and_close() -> Answer:
        try:
            return await call_connector("test", connector, number, timeout_s=settings.CALL_LIFETIME_S)
        finally:
            await connector.close()

    return loop.run(call_and_close())


def numbers(count: int) -> list[str]:
    return [str(12025550000 + n) for n in range(count)]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
