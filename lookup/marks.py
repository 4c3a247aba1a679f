"""Marks of numbers that were corrected or forgotten: nothing that was kept about one before is used again.

A mark is a part of the key under which answers are kept, and of that under which calls are shared. It changes with
every `set`, so whoever reads the new one never meets what came under an earlier one, whatever the hosts' clocks say.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from accounts.hashing import keyed_hash
from lookup.models import NumberMark
from lookup.selects import Row, Select

#: Without its mark a number has the key of "no mark" again: by then nothing may be left that was kept under it before.
#: A month more than that, for calls that were on their way and hosts whose clocks differ.
KEPT = timedelta(seconds=settings.ANSWER_KEPT_AT_MOST_S) + timedelta(days=30)


def hash_of(number: int | str) -> bytes:
    """What stands in the table for `number`."""
    return keyed_hash("mark", str(number))


SELECT = Select(
    "SELECT at FROM lookup_numbermark WHERE number_hash = %s", 1, parameters=lambda number: [hash_of(number)]
)


def find(number: str) -> str:
    """The mark of `number`, a text to compare and nothing else; empty where there is none. One SQL statement."""
    return read(SELECT.row(number))


def read(row: Row | None) -> str:
    """What a row of SELECT says."""
    return str(row[0]) if row else ""


def set(numbers: Iterable[int | str], *, blocked: bool | None = None) -> None:
    """Give each of the numbers a mark that differs from the one it has. `blocked`: None leaves that as it is."""
    hashes = sorted({hash_of(number) for number in numbers})
    with transaction.atomic():
        now = timezone.now()
        # First they are all there, then they are locked, always in this order: two at once never end with one mark.
        NumberMark.objects.bulk_create([NumberMark(number_hash=h, at=now) for h in hashes], ignore_conflicts=True)
        marks = list(NumberMark.objects.select_for_update().filter(pk__in=hashes).order_by("pk"))
        for mark in marks:
            # The clock may stand still, or go back.
            mark.at = max(now, mark.at + timedelta(microseconds=1))
            if blocked is not None:
                mark.blocked = blocked
        NumberMark.objects.bulk_create(
            marks, update_conflicts=True, unique_fields=["number_hash"], update_fields=["at", "blocked"]
        )


def unblock(numbers: Iterable[int | str]) -> int:
    """Let imports bring the numbers again; how many were blocked."""
    blocked = NumberMark.objects.filter(pk__in=[hash_of(number) for number in numbers], blocked=True)
    return blocked.update(blocked=False)


def blocked_hashes() -> frozenset[bytes]:
    """The numbers that imports leave out: those whose `hash_of` is one of these."""
    return frozenset(map(bytes, NumberMark.objects.filter(blocked=True).values_list("pk", flat=True)))


def prune() -> int:
    """Delete the marks that are past their age; how many. A blocked one stays."""
    # In one statement: a mark that is set again meanwhile is no longer meant. There are few.
    return NumberMark.objects.filter(blocked=False, at__lt=timezone.now() - KEPT).delete()[0]
