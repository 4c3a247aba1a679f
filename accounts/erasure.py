"""Forgetting numbers in the ledger and in remembered answers, while searches are answered.

Neither table has an index on the number's hash, and the ledger may be long: it is read once for all numbers, which
keeps nobody waiting, and what was found is emptied in short transactions. What was emptied before is not found again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from accounts.hashing import keyed_hash
from accounts.models import CreditEntry, IdempotencyRecord
from accounts.turns import let_others_write

CHUNK_ROWS = 500


@dataclass(frozen=True, slots=True)
class Emptied:
    """Ledger rows, and records of retries, that no longer say for which number they are."""

    ledger_entries: int
    stored_answers: int


def forget(numbers: Iterable[str]) -> Emptied:
    """Empty what was written about `numbers` so far. Amounts, balances and request ids stay: the audit is as before.

    A retry's record loses the number's hash too: it names the ledger row, and would say for which number that was. One
    repeat with its `Idempotency-Key` is then looked up anew, uncharged (accounts.idempotency).
    """
    hashes = [keyed_hash("number", number) for number in numbers]
    nothing = {"number_hash": None, "answer": "", "claim_expires_at": None}
    return Emptied(
        ledger_entries=_update(CreditEntry.objects.filter(number_hash__in=hashes), number_hash=None),
        stored_answers=_update(IdempotencyRecord.objects.filter(number_hash__in=hashes), **nothing),
    )


def _update(rows: QuerySet, **values: Any) -> int:
    """Update `rows`, found by one reading, a few at a time; how many."""
    updated, keys = 0, list(rows.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), CHUNK_ROWS):
        # A row that has become another's meanwhile is no longer one of them.
        updated += rows.filter(pk__in=keys[start : start + CHUNK_ROWS]).update(**values)
        let_others_write()
    return updated
