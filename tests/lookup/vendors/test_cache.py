"""Answers are cached for their TTL, failures never, and cache keys reveal nothing."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from redis import Redis

from core import redis
from lookup.answers import Found, NotFound
from lookup.connectors import registry
from lookup.vendors import cache
from phonebook import cache_versions
from tests import upstream
from tests.api import NUMBER
from tests.awaited import cached, put, search
from tests.lookup.vendors.searches import guard_of, in_flight, until, words
from tests.mock_vendors import PRESETS, Vendors
from tests.upstream import raw, says

pytestmark = pytest.mark.django_db
T = "tests.connectors."


@pytest.fixture(autouse=True)
def _no_timeouts(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = 20, 60


def test_found_and_not_found_are_cached_and_a_failure_is_not(vendors: Vendors) -> None:
    assert [words() for _ in range(2)] == [("found", "found")] * 2
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (1, 1)
    vendors.a.behave_as(says({"known": False}))
    vendors.b.behave_as(raw(b"", 500))
    assert [words("12025550199") for _ in range(3)] == [("not-found", "failed")] * 3
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (2, 4)


def test_found_and_not_found_have_separate_ttls(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    cached: list[tuple[str, Any, float]] = []

    monkeypatch.setattr(cache.AnswerCache, "put", lambda self, *entry: cached.append(entry))
    vendors.a.behave_as(says({"known": False}))
    search(NUMBER)
    until(lambda: len(cached) == 2)
    assert sorted(ttl_s for _, _, ttl_s in cached) == [3600, 86400]
    assert {type(answer): ttl_s for _, answer, ttl_s in cached} == {NotFound: 3600, Found: 86400}


def test_cache_key_depends_on_every_part_and_hides_the_number() -> None:
    def key(**part: str) -> str:
        return cache.key(**{"connector": "x", "version": "1", "number": NUMBER, "cache_version": "", **part})

    others = {"connector": "y", "version": "2", "number": "1" * 11, "cache_version": "later"}
    assert len({key(), *(key(**{name: value}) for name, value in others.items())}) == 5
    assert NUMBER not in key()


def test_cached_answer_is_ignored_after_the_preset_changes(vendors: Vendors, settings: Any, tmp_path: Path) -> None:
    words()
    keys = [guard_of(name).key(NUMBER, "") for name in ("mock_a", "mock_b")]
    until(lambda: len([key for key in keys if cached(key, cache.answers)]) == 2)  # Redis gets them after the search
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text + "# edited\n", encoding="utf-8")
    (tmp_path / "mock_b.toml").write_bytes((PRESETS / "mock_b.toml").read_bytes())
    settings.PRESET_DIR = str(tmp_path)
    registry.reset()
    words()
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (2, 1)


def test_a_late_answer_fills_the_cache(vendors: Vendors, settings: Any) -> None:
    vendors.a.behave_as(upstream.slow(2, says(upstream.GOOD_A)))
    settings.SEARCH_DEADLINE_S = 1
    assert words() == ("failed", "found")
    until(lambda: not in_flight(guard_of("mock_a")))
    settings.SEARCH_DEADLINE_S = 20
    assert words() == ("found", "found")
    assert len(vendors.a.heads) == 1


def stored() -> dict[str, float]:
    """The cached values, each with its TTL in seconds."""
    if django_settings.REDIS_URL:
        client = Redis.from_url(django_settings.REDIS_URL)
        keys = client.keys("callerid:answer:*")
        return {client.get(key).decode(): client.ttl(key) for key in keys}  # type: ignore[union-attr]
    return dict(cache.answers._local.values())


def test_cached_values_are_json_and_expire(vendors: Vendors) -> None:
    search(NUMBER)
    until(lambda: len(stored()) == 2)
    cached = stored()
    assert sorted(map(json.loads, cached), key=str) == sorted(
        [{"location": "Springfield, IL", "name": "Example Bakery"}, {"name": "Example Sweepstakes", "spam": True}],
        key=str,
    )
    assert all(0 < ttl_s <= 86400 for ttl_s in cached.values())


def test_invalid_cached_value_is_ignored() -> None:
    damaged = [b"", b"x", b"[]", b"\x80\x04", b'{"name": "\xff"}', b'{"x":' + b"[" * 100_000]
    damaged += [b'{"name": 7}', b'{"name": ""}', b'{"n": 1}', b'{"spam": "yes"}', b'{"spam": null}']
    assert [value for value in damaged if cache._parse(value)] == []


@pytest.mark.parametrize("answer", [Found(name="Zoë", spam=False), Found(location="x"), NotFound()])
def test_cached_answer_is_read_unchanged(answer: Found | NotFound) -> None:
    answers = cache.AnswerCache()
    put(answers, "callerid:answer:test", answer, 60)
    assert cached("callerid:answer:test", answers) == answer


def test_process_caches_answers_while_redis_is_unavailable(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    answers = cache.AnswerCache()
    put(answers, "k", Found(name="x"), 60)
    assert cached("k", answers) == Found(name="x")


def test_answers_cached_in_the_process_expire(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = ""
    now = 1000.0
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now))
    answers = cache.AnswerCache()
    put(answers, "short", NotFound(), 60)
    put(answers, "long", Found(name="x"), 600)
    now += 59
    assert (cached("short", answers), cached("long", answers)) == (NotFound(), Found(name="x"))
    now += 2
    assert (cached("short", answers), cached("long", answers)) == (None, Found(name="x"))


def test_no_answer_is_cached_longer_than_its_cache_version_lives(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be used again when the cache version is pruned."""
    settings.REDIS_URL = ""
    now = 1000.0
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now))
    answers = cache.AnswerCache()
    put(answers, "k", Found(name="x"), 10 * 365 * 24 * 3600)
    now += settings.ANSWER_KEPT_AT_MOST_S - 1
    assert cached("k", answers) == Found(name="x")
    now += 2
    assert cached("k", answers) is None
    assert cache_versions.KEPT.total_seconds() > settings.ANSWER_KEPT_AT_MOST_S


def test_ttl_in_redis_is_limited(settings: Any, redis_url: str) -> None:
    settings.REDIS_URL = redis_url
    put(cache.AnswerCache(), "callerid:answer:k", Found(name="x"), 10 * 365 * 24 * 3600)
    ttl_s = Redis.from_url(redis_url).ttl("callerid:answer:k")
    assert 0 < ttl_s <= settings.ANSWER_KEPT_AT_MOST_S


def test_answer_cached_during_a_redis_outage_is_used_afterwards(settings: Any, redis_url: str) -> None:
    answers = cache.AnswerCache()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    put(answers, "callerid:answer:k", Found(name="x"), 60)
    settings.REDIS_URL = redis_url
    redis.availability = redis.Availability()
    assert cached("callerid:answer:k", answers) == Found(name="x")
    put(answers, "callerid:answer:k", Found(name="y"), 60)
    assert cached("callerid:answer:k", cache.AnswerCache()) == Found(name="y")


def test_partly_unreadable_answer_is_a_failure_and_not_cached(vendors: Vendors, settings: Any) -> None:
    """In slot A, of a vendor whose spam field could be read, but not its name."""
    settings.SOURCE_A, settings.SOURCE_B = "mock_b", "complaints"
    vendors.b.behave_as(says({"name": {"first": "x"}, "score": 7}))
    assert [words()[0] for _ in range(2)] == ["failed", "failed"]
    assert len(vendors.b.heads) == 2
