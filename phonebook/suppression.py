"""The list of suppressed numbers, which imports skip: those erased with `forget --block`. It is kept with the cache
versions, in CacheVersion, as keyed hashes."""

from collections.abc import Iterable

from django.db import transaction

from phonebook import cache_versions
from phonebook.models import CacheVersion


def suppress(numbers: Iterable[int | str]) -> None:
    """Have imports skip the numbers from now on. Gives each a new cache version too (cache_versions.bump)."""
    numbers = list(numbers)
    with transaction.atomic():
        cache_versions.bump(numbers)
        CacheVersion.objects.filter(pk__in=map(cache_versions.hash_of, numbers)).update(suppressed=True)


def unsuppress(numbers: Iterable[int | str]) -> int:
    """Let imports add the numbers again; returns how many were suppressed."""
    suppressed = CacheVersion.objects.filter(pk__in=map(cache_versions.hash_of, numbers), suppressed=True)
    return suppressed.update(suppressed=False)


class SuppressedNumbers:
    """All suppressed numbers, as they were when this was made, by one statement."""

    def __init__(self) -> None:
        rows = CacheVersion.objects.filter(suppressed=True)
        self._hashes = frozenset(map(bytes, rows.values_list("pk", flat=True)))

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def __contains__(self, number: int | str) -> bool:
        return bool(self) and cache_versions.hash_of(number) in self._hashes
