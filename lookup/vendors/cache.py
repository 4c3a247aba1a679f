"""Cached answers of vendors: in Redis if it is configured; in this process if it is not, or is unavailable.

A value is JSON and validated when read. A key is a keyed hash, which reveals neither a number nor a preset's secret.
Only found and not found are cached, never a failure. In this process the least recently used answer is evicted first.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import cachetools
import msgspec
from django.conf import settings

from core import redis
from core.hashing import keyed_hash
from lookup.answers import Answer, Found, NotFound

LOCAL_ENTRIES = 20_000
#: How long answers are collected before they are written to Redis together: much shorter than guard.JOINABLE_S.
WRITE_DELAY_S = 0.02


class AnswerCache:
    """`get` and `put` never raise: without a cache a search costs more, but is not wrong."""

    def __init__(self) -> None:
        #: What the next write to Redis will contain, and the task that writes until there is nothing left.
        self._unwritten: dict[str, tuple[str, float]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._local: cachetools.TLRUCache[str, tuple[str, float]] = cachetools.TLRUCache(
            LOCAL_ENTRIES, ttu=lambda _, value, now: now + value[1], timer=time.monotonic
        )

    async def get(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The cached answers, by key."""
        texts: list[str | bytes | None] = [None] * len(keys)
        if settings.REDIS_URL and keys:
            with suppress(redis.RedisUnavailable):
                texts = await redis.call_on_loop(lambda client: client.execute("MGET", *keys))
        found = {}
        for key, text in zip(keys, texts, strict=True):
            # It may have been cached here while Redis was unavailable.
            cached = self._local.get(key, (None, 0.0))[0] if text is None else text
            if cached is not None and (answer := _parse(cached)):
                found[key] = answer
        return found

    def put(self, key: str, answer: Found | NotFound, ttl_s: float) -> None:
        """Keep `answer` for `ttl_s`, at most ANSWER_KEPT_AT_MOST_S."""
        text = msgspec.json.encode(answer.known() if isinstance(answer, Found) else {}).decode()
        entry = text, min(ttl_s, settings.ANSWER_KEPT_AT_MOST_S)
        if not settings.REDIS_URL:
            self._local[key] = entry
            return
        self._unwritten[key] = entry
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def flush(self) -> None:
        """Wait until Redis has what was put."""
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._unwritten:
            await asyncio.sleep(WRITE_DELAY_S)
            entries, self._unwritten = self._unwritten, {}
            try:
                await _write_to_redis(entries)
            except redis.RedisUnavailable:
                for key, entry in entries.items():
                    self._local[key] = entry


#: This process's.
answers = AnswerCache()


def key(*, connector: str, version: str, number: str, cache_version: str) -> str:
    """`version`: the connector's; `cache_version`: the number's (phonebook.cache_versions). Changing either invalidates
    what was cached before."""
    digest = keyed_hash("answer", f"{connector}\0{version}\0{number}\0{cache_version}").hex()
    return f"callerid:answer:{digest}"


async def _write_to_redis(entries: Mapping[str, tuple[str, float]]) -> None:
    commands = [("SET", key, text, "EX", int(ttl_s)) for key, (text, ttl_s) in entries.items()]
    await redis.call_on_loop(lambda client: client.execute_all(commands))


def _parse(text: str | bytes) -> Answer | None:
    """None if it is not an answer of this version: another program's, an older version's, or damaged."""
    if text in ("{}", b"{}"):
        return NotFound()
    try:
        return _decoder.decode(text)
    except (ValueError, RecursionError):
        return None


_decoder = msgspec.json.Decoder(Found)
