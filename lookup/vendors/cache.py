"""Cached answers of vendors: in Redis if it is configured; in this process if it is not, or is unavailable.

A value is JSON and validated when read. A key is a keyed hash, which reveals neither a number nor a preset's secret.
Only found and not found are cached, never a failure. In this process the least recently used answer is evicted first.
Requests' threads read, the event loop writes.
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

import cachetools
from django.conf import settings

from core import redis
from core.hashing import keyed_hash
from lookup.answers import FIELDS, Answer, Found, NotFound
from lookup.vendors import event_loop

LOCAL_ENTRIES = 20_000


#: Key, answer and TTL in seconds. One of less than a second is not cached; ANSWER_KEPT_AT_MOST_S is the longest time.
Entry = tuple[str, Found | NotFound, float]


class AnswerCache:
    """`get` and `put` never raise: without a cache a search costs more, but is not wrong."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._local: cachetools.TLRUCache[str, tuple[str, float]] = cachetools.TLRUCache(
            LOCAL_ENTRIES, ttu=lambda _, value, now: now + value[1], timer=time.monotonic
        )

    def get(self, keys: Sequence[str]) -> dict[str, Answer]:
        """The cached answers, by key."""
        texts: list[str | bytes | None] = [None] * len(keys)
        if settings.REDIS_URL:
            with suppress(redis.RedisUnavailable):
                texts = redis.call(lambda: redis.thread_client(settings.REDIS_URL).mget(keys))
        found = {}
        for key, text in zip(keys, texts, strict=True):
            # It may have been cached here while Redis was unavailable.
            cached = self._get_local(key) if text is None else text
            if cached is not None and (answer := _parse(cached)):
                found[key] = answer
        return found

    def _get_local(self, key: str) -> str | None:
        with self._lock:
            text, _ = self._local.get(key, (None, 0.0))
            return text

    def put(self, entries: Iterable[Entry]) -> None:
        """Blocks while Redis is asked."""
        longest_s = settings.ANSWER_KEPT_AT_MOST_S
        texts = [(key, _text(answer), min(ttl_s, longest_s)) for key, answer, ttl_s in entries if ttl_s >= 1]
        if settings.REDIS_URL:
            try:
                redis.call(lambda: _put_in_redis(texts))
                return
            except redis.RedisUnavailable:
                pass
        with self._lock:
            for key, text, ttl_s in texts:
                self._local[key] = (text, ttl_s)


#: This process's.
answers = AnswerCache()


class CacheWriter:
    """Puts answers into the cache from the event loop, without blocking it: what comes while Redis is asked is sent
    together afterwards."""

    def __init__(self) -> None:
        self._pending: list[Entry] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, entry: Entry) -> None:
        if not settings.REDIS_URL:
            answers.put([entry])
            return
        self._pending.append(entry)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._pending:
            entries, self._pending = self._pending, []
            await event_loop.run_in_thread(partial(answers.put, entries))


#: This process's.
writer = CacheWriter()


def _start_anew() -> None:
    """After a fork: a write that was under way is the parent's, and a lock may have been held."""
    global answers, writer
    answers, writer = AnswerCache(), CacheWriter()


os.register_at_fork(after_in_child=_start_anew)


def key(*, connector: str, version: str, number: str, cache_version: str) -> str:
    """`version`: the connector's; `cache_version`: the number's (lookup.cache_versions). Changing either invalidates
    what was cached before."""
    digest = keyed_hash("answer", f"{connector}\0{version}\0{number}\0{cache_version}").hex()
    return f"callerid:answer:{digest}"


def _text(answer: Found | NotFound) -> str:
    return json.dumps(answer.known() if isinstance(answer, Found) else {}, ensure_ascii=False)


def _put_in_redis(texts: Iterable[tuple[str, str, float]]) -> None:
    with redis.client(settings.REDIS_URL).pipeline(transaction=False) as pipeline:
        for key, text, ttl_s in texts:
            pipeline.set(key, text, ex=int(ttl_s))
        pipeline.execute()


def _parse(text: str | bytes) -> Answer | None:
    """None if it is not an answer of this version: another program's, an older version's, or damaged."""
    try:
        known = json.loads(text)
        if not isinstance(known, dict) or not known.keys() <= set(FIELDS) or None in known.values():
            return None
        return Found(**known) if known else NotFound()
    except (ValueError, TypeError, RecursionError):
        return None
