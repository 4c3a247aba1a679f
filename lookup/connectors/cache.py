"""Answers kept for a set time: on Redis where there is one, else, or while it is away, in this process.

A value is JSON and checked when read. A key is a keyed hash: neither a number nor a preset's secret can be read from
it. Found and not found only: a failure is not an answer.
"""

import json
import threading
import time
from functools import lru_cache

import cachetools
from django.conf import settings

from accounts import shared_store
from accounts.hashing import keyed_hash
from lookup.answers import FIELDS, Answer, Found, NotFound

LOCAL_ENTRIES = 20_000


class AnswerCache:
    """`get` and `put` never raise: without a cache a search is dearer, not wrong."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._local: cachetools.TLRUCache[str, tuple[str, float]] = cachetools.TLRUCache(
            LOCAL_ENTRIES, ttu=lambda _, value, now: now + value[1], timer=time.monotonic
        )

    def get(self, key: str) -> Answer | None:
        return _read(self._shared_get(key) if settings.REDIS_URL else self._local_get(key))

    def put(self, key: str, answer: Found | NotFound, ttl_s: float) -> None:
        """Nothing is kept for less than a second, or longer than ANSWER_KEPT_AT_MOST_S."""
        if ttl_s < 1:
            return
        ttl_s = min(ttl_s, settings.ANSWER_KEPT_AT_MOST_S)
        text = json.dumps(answer.known() if isinstance(answer, Found) else {}, ensure_ascii=False)
        if settings.REDIS_URL:
            try:
                shared_store.ask(lambda: shared_store.client(settings.REDIS_URL).set(key, text, ex=int(ttl_s)))
                return
            except shared_store.Away:
                pass
        with self._lock:
            self._local[key] = (text, ttl_s)

    def _shared_get(self, key: str) -> str | bytes | None:
        """Also what this process kept while Redis was away, or would not take it."""
        try:
            kept = shared_store.ask(lambda: shared_store.own_client(settings.REDIS_URL).get(key))
        except shared_store.Away:
            kept = None
        return kept or self._local_get(key)

    def _local_get(self, key: str) -> str | None:
        with self._lock:
            found = self._local.get(key)
        return found[0] if found else None


@lru_cache(maxsize=1)
def answers() -> AnswerCache:
    """This process's."""
    return AnswerCache()


def key(*, slot: str, connector: str, version: str, number: str, mark: str) -> str:
    """`version`: of what the connector is told to do; `mark`: the number's (lookup.marks). A new one never meets an old
    one's answers."""
    digest = keyed_hash("answer", f"{slot}\0{connector}\0{version}\0{number}\0{mark}").hex()
    return f"callerid:answer:{digest}"


def _read(text: str | bytes | None) -> Answer | None:
    """None for what is no answer of ours: another program's, an older version's, or damaged."""
    if text is None:
        return None
    try:
        known = json.loads(text)
        if not isinstance(known, dict) or not known.keys() <= set(FIELDS) or None in known.values():
            return None
        return Found(**known) if known else NotFound()
    except (ValueError, TypeError, RecursionError):
        return None
