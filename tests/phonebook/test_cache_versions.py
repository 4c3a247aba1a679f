"""A mark changes whenever it is set, and stays as long as anything may be kept from before it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from phonebook import cache_versions, suppression
from phonebook.models import CacheVersion
from tests.api import NUMBER
from tests.phonebook.rows import cache_version_of

OTHER = "493023125043"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """What the clock of this host says: its one item."""
    says = [timezone.now()]
    monkeypatch.setattr(timezone, "now", lambda: says[0])
    return says


def test_bump_gives_only_that_number_a_cache_version(db: None) -> None:
    assert cache_version_of(NUMBER) == ""
    cache_versions.bump([NUMBER])
    assert cache_version_of(NUMBER)
    assert cache_version_of(OTHER) == ""


@pytest.mark.parametrize("later", [timedelta(0), timedelta(seconds=1), -timedelta(days=400)])
def test_a_cache_version_never_recurs_when_the_clock_goes_back(
    db: None, clock: list[datetime], later: timedelta
) -> None:
    seen = set()
    for _ in range(5):
        cache_versions.bump([NUMBER])
        seen.add(cache_version_of(NUMBER))
        clock[0] += later
    assert len(seen) == 5


def test_a_cache_version_of_a_whole_second_is_not_empty(db: None, clock: list[datetime]) -> None:
    clock[0] = clock[0].replace(microsecond=999_999)  # set adds a microsecond where the row is new
    cache_versions.bump([NUMBER])
    first = cache_version_of(NUMBER)
    cache_versions.bump([NUMBER])
    assert cache_version_of(NUMBER) not in ("", first)


def test_concurrent_bumps_differ_and_do_not_deadlock(transactional_db: None) -> None:
    both, together = [NUMBER, OTHER], Barrier(3)

    def set_them(numbers: list[str]) -> None:
        together.wait(10)
        for _ in range(10):
            cache_versions.bump(numbers)
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(set_them, numbers) for numbers in (both, both[::-1], both)]:
            done.result(60)
    assert CacheVersion.objects.count() == 2


def test_the_table_holds_only_the_numbers_keyed_hash(db: None) -> None:
    cache_versions.bump([NUMBER])
    assert NUMBER not in str(CacheVersion.objects.values().get())
    assert bytes(CacheVersion.objects.get().pk) == cache_versions.hash_of(NUMBER) == cache_versions.hash_of(int(NUMBER))


def test_a_number_stays_suppressed_until_unsuppressed(db: None) -> None:
    suppression.suppress([NUMBER])
    cache_versions.bump([NUMBER, OTHER])
    blocked = suppression.suppressed_hashes()
    assert (cache_versions.hash_of(int(NUMBER)) in blocked, cache_versions.hash_of(OTHER) in blocked) == (True, False)
    before = cache_version_of(NUMBER)
    assert (suppression.unsuppress([NUMBER, OTHER]), suppression.unsuppress([NUMBER, OTHER])) == (1, 0)
    assert suppression.suppressed_hashes() == frozenset()
    assert cache_version_of(NUMBER) == before


def test_prune_keeps_recent_and_suppressed_rows(db: None, clock: list[datetime]) -> None:
    cache_versions.bump(["493023125001"])
    suppression.suppress(["493023125002"])
    clock[0] += timedelta(days=1)
    cache_versions.bump(["493023125003"])
    clock[0] += cache_versions.KEPT
    assert [cache_versions.prune(), cache_versions.prune()] == [1, 0]
    assert [bool(cache_version_of(f"49302312500{n}")) for n in (1, 2, 3)] == [False, True, True]
