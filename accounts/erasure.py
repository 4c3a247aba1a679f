"""Erasing numbers from the ledger and from stored answers, while searches are answered.

Neither table has an index on the number's hash, and the ledger may be long: each is scanned once for all numbers,
without a lock, and updated in short transactions. Rows that were erased before are not found again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from accounts.models import CreditEntry, IdempotencyRecord
from core.hashing import keyed_hash
from core.retention import update_in_batches

BATCH_ROWS = 500


@dataclass(frozen=True, slots=True)
class Erased:
    """Numbers of ledger entries and stored answers whose number was erased."""

    ledger_entries: int
    stored_answers: int


def erase(numbers: Iterable[str]) -> Erased:
    """Erase what was written about `numbers` so far. Amounts, balances and request ids stay, so the audit still agrees.

    An idempotency record loses the number's hash too, because it refers to the ledger entry and would tell its number.
    The next request with its `Idempotency-Key` searches again, uncharged (accounts.idempotency).
    """
    hashes = [keyed_hash("number", number) for number in numbers]
    entries = CreditEntry.objects.filter(number_hash__in=hashes)
    records = IdempotencyRecord.objects.filter(number_hash__in=hashes)
    return Erased(
        ledger_entries=update_in_batches(entries, BATCH_ROWS, number_hash=None),
        stored_answers=update_in_batches(records, BATCH_ROWS, number_hash=None, answer="", claim_expires_at=None),
    )
