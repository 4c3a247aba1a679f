"""Batched deletes and updates, in short transactions, while searches are answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from core.db import scan, yield_to_writers
from core.hooks import Hook

#: Retention of statistics and settled notices: more than a year, to compare with the previous one.
KEPT_DAYS = 400
#: Rows of statistics that are deleted in one transaction.
PRUNE_ROWS = 5_000


class Expiring(NamedTuple):
    """`prune`: the dotted path of a function that deletes the expired rows, and returns how many. `name`: theirs in the
    command's result; `sentence`: for its help, such as "alerts after 400 days"."""

    name: str
    prune: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows with phone numbers. `name`: theirs in the result of `forget`. `title` and `happens`: what they are and what
    happens to them, such as "Requests in the request log" and "the number's mask and hash are removed". `count` and
    `erase`: the dotted paths of functions of numbers (their digits) that return how many rows are erased.

    `at_once`: `erase` is called when what is known about the numbers is deleted, while no import writes; otherwise
    afterwards. `is_of_any`: the rows may be about any number: they do not tell that something is known about these."""

    name: str
    title: str
    happens: str
    count: str
    erase: str
    at_once: bool = False
    is_of_any: bool = False


EXPIRING, NUMBERED = Hook[Expiring](), Hook[Numbered]()


def oldest_kept() -> datetime:
    """KEPT_DAYS ago."""
    return timezone.now() - timedelta(days=KEPT_DAYS)


def delete_batch(rows: QuerySet, size: int, *, key: str = "pk") -> int:
    """Delete the first `size` of `rows`, in their order; returns how many. Two processes at once share the work. `key`:
    a field that tells them apart."""
    with transaction.atomic():
        # Locked, so that a row that was renewed meanwhile is not deleted; rows locked by another are skipped.
        batch = list(rows.select_for_update(skip_locked=True).values_list(key, flat=True)[:size])
        return rows.filter(**{f"{key}__in": batch}).delete()[0] if batch else 0


def delete_in_batches(rows: QuerySet, size: int, *, key: str = "pk") -> int:
    """Delete `rows` in batches of `size`, as delete_batch does; returns how many."""
    deleted = 0
    while batch := delete_batch(rows, size, key=key):
        deleted += batch
        yield_to_writers()
    return deleted


def update_in_batches(rows: QuerySet, size: int, **values: Any) -> int:
    """Update `rows` in batches of `size`; returns how many. Scans the table once, without a lock."""
    with scan():
        keys: Sequence[Any] = list(rows.order_by("pk").values_list("pk", flat=True))
    updated = 0
    for start in range(0, len(keys), size):
        # Filtered again: a row may have changed since it was found.
        updated += rows.filter(pk__in=keys[start : start + size]).update(**values)
        yield_to_writers()
    return updated
