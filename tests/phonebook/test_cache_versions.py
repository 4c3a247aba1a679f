"""A cache version changes with each bump, and is kept as long as any answer that was cached before."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.db import connection
from django.utils import timezone

from phonebook import cache_versions, suppression
from phonebook.models import CacheVersion
from tests.api import NUMBER
from tests.phonebook.rows import cache_version_of

OTHER = "493023125043"


def test_each_bump_gives_only_that_number_a_new_version(db: None) -> None:
    assert cache_version_of(NUMBER) == ""
    seen = set()
    for _ in range(5):
        cache_versions.bump([NUMBER])
        seen.add(cache_version_of(NUMBER))
    assert len(seen - {""}) == 5
    assert cache_version_of(OTHER) == ""


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


def test_prune_keeps_recent_and_suppressed_rows(db: None) -> None:
    cache_versions.bump(["493023125001"])
    suppression.suppress(["493023125002"])
    CacheVersion.objects.update(changed_at=timezone.now() - cache_versions.KEPT)
    cache_versions.bump(["493023125003"])
    assert [cache_versions.prune(), cache_versions.prune()] == [1, 0]
    assert [bool(cache_version_of(f"49302312500{n}")) for n in (1, 2, 3)] == [False, True, True]
