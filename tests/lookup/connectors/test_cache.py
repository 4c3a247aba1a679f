"""Answers are kept for their time, failures never, and nothing of them can be read from a key."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings

from accounts import shared_store
from lookup import marks
from lookup import search as search_module
from lookup.answers import Found, NotFound
from lookup.connectors import cache, registry
from lookup.search import search
from tests import upstream
from tests.api import NUMBER
from tests.lookup.connectors.conftest import PRESETS, Vendors
from tests.lookup.connectors.searches import until, words
from tests.upstream import raw, says

pytestmark = pytest.mark.django_db
T = "tests.connectors."


@pytest.fixture(autouse=True)
def _nobody_is_late(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = 20, 60


def test_a_second_search_for_a_number_asks_no_vendor(vendors: Vendors) -> None:
    first, second = search(NUMBER), search(NUMBER)
    assert [slot.answer for slot in first.slots.values()] == [slot.answer for slot in second.slots.values()]
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (1, 1)


def test_nobody_knows_is_kept_too_and_a_failure_never(vendors: Vendors) -> None:
    vendors.a.repair(says({"known": False}))
    vendors.b.repair(raw(b"", 500))
    assert [words() for _ in range(3)] == [("not-found", "failed")] * 3
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (1, 3)


def test_found_and_not_found_have_their_own_times(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[Any, float]] = []
    monkeypatch.setattr(cache.AnswerCache, "put", lambda self, key, answer, ttl_s: kept.append((answer, ttl_s)))
    vendors.a.repair(says({"known": False}))
    search(NUMBER)
    until(lambda: len(kept) == 2)
    assert sorted(ttl_s for _, ttl_s in kept) == [3600, 86400]
    assert {type(answer): ttl_s for answer, ttl_s in kept} == {NotFound: 3600, Found: 86400}


def test_every_part_of_the_question_is_in_the_key_and_the_number_is_not_readable() -> None:
    def key(**part: str) -> str:
        return cache.key(**{"slot": "source_a", "connector": "x", "version": "1", "number": NUMBER, "mark": "", **part})

    others = {"slot": "source_b", "connector": "y", "version": "2", "number": "1" * 11, "mark": "later"}
    assert len({key(), *(key(**{name: value}) for name, value in others.items())}) == 6
    assert NUMBER not in key()


def test_an_edited_preset_never_meets_old_answers(vendors: Vendors, settings: Any, tmp_path: Path) -> None:
    words()
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text + "# edited\n", encoding="utf-8")
    (tmp_path / "mock_b.toml").write_bytes((PRESETS / "mock_b.toml").read_bytes())
    settings.PRESET_DIR = str(tmp_path)
    registry.forget()
    search_module._bound.cache_clear()
    words()
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (2, 1)


def test_a_late_answer_fills_the_cache(vendors: Vendors, settings: Any) -> None:
    vendors.a.repair(upstream.slow(2, says(upstream.GOOD_A)))
    settings.SEARCH_DEADLINE_S = 1
    assert words() == ("failed", "found")
    until(lambda: not registry._member("mock_a").guard._flights)  # type: ignore[union-attr]
    settings.SEARCH_DEADLINE_S = 20
    assert words() == ("found", "found")
    assert len(vendors.a.heads) == 1


def stored() -> dict[str, float]:
    """What is kept: value → seconds that it has left."""
    if django_settings.REDIS_URL:
        client = shared_store.client(django_settings.REDIS_URL)
        keys = client.keys("callerid:answer:*")
        return {client.get(key).decode(): client.ttl(key) for key in keys}  # type: ignore[union-attr]
    return dict(cache.answers()._local.values())


def test_what_is_kept_is_json_with_a_lifetime_under_a_key_that_tells_nothing(vendors: Vendors) -> None:
    search(NUMBER)
    until(lambda: len(stored()) == 2)
    kept = stored()
    assert sorted(map(json.loads, kept), key=str) == sorted(
        [{"location": "Springfield, IL", "name": "Example Bakery"}, {"name": "Example Sweepstakes", "spam": True}],
        key=str,
    )
    assert all(0 < ttl_s <= 86400 for ttl_s in kept.values())


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"x",
        b"[]",
        b'{"name": 7}',
        b'{"name": ""}',
        b'{"n": 1}',
        b'{"spam": "yes"}',
        b'{"spam": null}',
        b"\x80\x04",
    ],
)
def test_a_kept_value_that_is_no_answer_is_asked_anew(damage: bytes) -> None:
    assert cache._read(damage) is None


@pytest.mark.parametrize("answer", [Found(name="Zoë", spam=False), Found(location="x"), NotFound()])
def test_what_is_kept_is_read_as_it_was(answer: Found | NotFound) -> None:
    kept = cache.AnswerCache()
    kept.put("callerid:answer:test", answer, 60)
    assert kept.get("callerid:answer:test") == answer


def test_the_process_keeps_answers_while_redis_is_away(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    kept = cache.AnswerCache()
    kept.put("k", Found(name="x"), 60)
    assert kept.get("k") == Found(name="x")


def test_what_the_process_keeps_has_its_lifetime(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.REDIS_URL = ""
    now = 1000.0
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now))
    kept = cache.AnswerCache()
    kept.put("short", NotFound(), 60)
    kept.put("long", Found(name="x"), 600)
    kept.put("never", Found(name="x"), 0)
    assert kept.get("never") is None
    now += 59
    assert (kept.get("short"), kept.get("long")) == (NotFound(), Found(name="x"))
    now += 2
    assert (kept.get("short"), kept.get("long")) == (None, Found(name="x"))


def test_nothing_is_kept_longer_than_a_number_keeps_its_mark(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would be found again when the mark is pruned."""
    settings.REDIS_URL = ""
    now = 1000.0
    monkeypatch.setattr(cache, "time", SimpleNamespace(monotonic=lambda: now))
    kept = cache.AnswerCache()
    kept.put("k", Found(name="x"), 10 * 365 * 24 * 3600)
    now += settings.ANSWER_KEPT_AT_MOST_S - 1
    assert kept.get("k") == Found(name="x")
    now += 2
    assert kept.get("k") is None
    assert marks.KEPT.total_seconds() > settings.ANSWER_KEPT_AT_MOST_S


def test_redis_too_keeps_nothing_for_longer(settings: Any, redis_url: str) -> None:
    settings.REDIS_URL = redis_url
    shared_store.client.cache_clear()
    cache.AnswerCache().put("callerid:answer:k", Found(name="x"), 10 * 365 * 24 * 3600)
    ttl_s = shared_store.client(redis_url).ttl("callerid:answer:k")
    shared_store.client.cache_clear()
    assert 0 < ttl_s <= settings.ANSWER_KEPT_AT_MOST_S


def test_what_was_bought_while_redis_was_away_is_not_bought_again(settings: Any, redis_url: str) -> None:
    kept = cache.AnswerCache()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    kept.put("callerid:answer:k", Found(name="x"), 60)
    settings.REDIS_URL = redis_url
    shared_store.outage.__init__()  # type: ignore[misc]
    shared_store.client.cache_clear()
    assert kept.get("callerid:answer:k") == Found(name="x")
    kept.put("callerid:answer:k", Found(name="y"), 60)
    assert cache.AnswerCache().get("callerid:answer:k") == Found(name="y")
    shared_store.client.cache_clear()


def test_half_an_answer_is_neither_nobody_knows_nor_kept(vendors: Vendors, settings: Any) -> None:
    """Slot A of a vendor whose verdict could be read, and whose name could not."""
    settings.SOURCE_A, settings.SOURCE_B = "mock_b", "complaints"
    vendors.b.repair(says({"name": {"first": "x"}, "score": 7}))
    assert [words()[0] for _ in range(2)] == ["failed", "failed"]
    assert len(vendors.b.heads) == 2
