"""Invalidates the cached vendor answers of one number when its data is corrected or erased.

A number's cache version is part of the key of its cached answers and of its in-flight calls. `bump` changes it, so a
search that reads the new version never uses an older answer. It is random, whatever the hosts' clocks say.
"""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from core.hashing import keyed_hash
from phonebook.models import CacheVersion
from phonebook.number_query import NumberQuery, NumberRows

#: How long a row is kept. A number without a row has the version "" again, so the row must outlive every answer that
#: was cached under "" before: by a month, for in-flight calls and hosts whose clocks differ.
KEPT = timedelta(seconds=settings.ANSWER_KEPT_AT_MOST_S) + timedelta(days=30)


def hash_of(number: int | str) -> bytes:
    """The keyed hash under which the table holds `number`."""
    return keyed_hash("cache version", str(number))


QUERY = NumberQuery(
    "SELECT version FROM phonebook_cacheversion WHERE number_hash = %s",
    1,
    parameters=lambda number: [hash_of(number)],
)


async def find(rows: NumberRows) -> str:
    """The cache version of the rows' number, an opaque text; empty where it has none."""
    row = await rows.get(QUERY)
    return str(row[0]) if row else ""


def bump(numbers: Iterable[int | str]) -> None:
    """Give each of the numbers a cache version that differs from its current one."""
    now = timezone.now()
    # Sorted, so that concurrent bumps never deadlock.
    hashes = sorted({hash_of(number) for number in numbers})
    CacheVersion.objects.bulk_create(
        [CacheVersion(number_hash=each, version=secrets.randbits(63), changed_at=now) for each in hashes],
        update_conflicts=True,
        unique_fields=["number_hash"],
        update_fields=["version", "changed_at"],
    )


def prune() -> int:
    """Delete the rows that are older than KEPT and not of suppressed numbers (suppression.py); returns how many."""
    # One statement, so that a row that is bumped meanwhile stays. There are few rows.
    return CacheVersion.objects.filter(suppressed=False, changed_at__lt=timezone.now() - KEPT).delete()[0]
