"""Suppressed numbers, which imports skip: those erased with `forget --block`. CacheVersion has their keyed hashes."""

from collections.abc import Iterable

from django.db import transaction

from phonebook import cache_versions
from phonebook.cache_versions import hash_of
from phonebook.models import CacheVersion


def suppress(numbers: Iterable[int | str]) -> None:
    """Make imports skip the numbers. Also bumps their cache versions, which creates the rows."""
    numbers = list(numbers)
    with transaction.atomic():
        cache_versions.bump(numbers)
        CacheVersion.objects.filter(pk__in=[hash_of(number) for number in numbers]).update(suppressed=True)


def unsuppress(numbers: Iterable[int | str]) -> int:
    """Let imports add the numbers again; returns how many were suppressed."""
    suppressed = CacheVersion.objects.filter(pk__in=[hash_of(number) for number in numbers], suppressed=True)
    return suppressed.update(suppressed=False)


def suppressed_hashes() -> frozenset[bytes]:
    """The `hash_of` of every number that imports skip."""
    return frozenset(map(bytes, CacheVersion.objects.filter(suppressed=True).values_list("pk", flat=True)))
