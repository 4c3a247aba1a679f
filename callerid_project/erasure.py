"""Erases numbers everywhere in this service, while searches are answered. docs/personal-data.md says what it does not
reach."""

import re
from collections.abc import Iterable, Sequence

from django.contrib.admin.models import LogEntry
from django.db import connection, transaction

from accounts.models import CreditEntry, IdempotencyRecord
from core import db
from core.hashing import keyed_hash
from core.retention import update_in_batches
from lookup import file_lookups
from monitoring import request_log
from phonebook import cache_versions, suppression
from phonebook.imports import batches, uploads
from phonebook.imports.complaints import COMPLAINTS, drop_unused_subjects
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.staging import Tables
from phonebook.models import AddressBookContact, ComplaintDay, Contact, NumberRule

BATCH_ROWS = 500
#: Replaces a number in the admin's history.
ERASED = "(erased)"
_NUMBER = re.compile(r"(?<![0-9])[1-9][0-9]{6,14}(?![0-9])")


def erase(numbers: Iterable[str], *, block: bool = False) -> dict[str, int | bool | None]:
    """Delete what is known about `numbers`, and remove them from what has to be kept.

    `block`: imports skip them from now on. Can be repeated at any time, also after an interruption. Returns how many
    rows were deleted or changed. `subjects`: those that no other number has; they may be free text about this one.
    `overwritten`: on SQLite, whether nothing is left in the database's files, which a concurrent reader may prevent;
    otherwise None.
    """
    numbers = list(dict.fromkeys(numbers))
    deleted = _delete(numbers, block=block)
    return {
        **deleted,
        # After the uploads, of which none can become a look-up any more.
        "file_lookup_rows": file_lookups.erase(numbers),
        "subjects": drop_unused_subjects() if deleted["complaint_days"] or deleted["import_changes"] else 0,
        "admin_entries": _erase_from_history(frozenset(numbers)),
        **_erase_from_ledger(numbers),
        "requests": request_log.erase(numbers),
        "overwritten": _truncate_wal(),
    }


def _delete(numbers: Sequence[str], *, block: bool) -> dict[str, int]:
    known = {
        "contacts": Contact,
        "address_book_contacts": AddressBookContact,
        "complaint_days": ComplaintDay,
        "rules": NumberRule,
    }
    # Waits for an import that is writing; one that is still reading sees the suppressed numbers when it writes.
    with Tables.lock(CONTACTS), Tables.lock(COMPLAINTS), transaction.atomic():
        # In the same transaction, so that cached vendor answers are invalid at the same moment in every process.
        (suppression.suppress if block else cache_versions.bump)(numbers)
        deleted = {
            name: model._default_manager.filter(number__in=map(int, numbers)).delete()[0]
            for name, model in known.items()
        }
        return deleted | {"uploads": uploads.discard_all()} | batches.erase(numbers)


def _erase_from_ledger(numbers: Sequence[str]) -> dict[str, int]:
    """Amounts, balances and request ids stay, so the audit still agrees.

    An idempotency record loses the number's hash too, because it refers to the ledger entry and would tell its number.
    The next request with its `Idempotency-Key` searches again, uncharged (accounts.idempotency).

    Neither table has an index on the number's hash, and the ledger may be long: each is scanned once for all numbers,
    without a lock, and updated in short transactions. Rows that were erased before are not found again.
    """
    hashes = [keyed_hash("number", number) for number in numbers]
    entries = CreditEntry.objects.filter(number_hash__in=hashes)
    records = IdempotencyRecord.objects.filter(number_hash__in=hashes)
    return {
        "ledger_entries": update_in_batches(entries, BATCH_ROWS, number_hash=None),
        "stored_answers": update_in_batches(records, BATCH_ROWS, number_hash=None, answer="", claim_expires_at=None),
    }


def _erase_from_history(numbers: frozenset[str]) -> int:
    """Keeps who did what and when; returns how many entries changed. Writes each by itself, after reading: on SQLite a
    transaction around both would block other writers."""

    def without(text: str) -> str:
        return _NUMBER.sub(lambda found: ERASED if found[0] in numbers else found[0], text)

    models = [model._meta.model_name for model in (Contact, ComplaintDay, NumberRule)]
    entries = LogEntry.objects.filter(content_type__app_label="phonebook", content_type__model__in=models)
    changed: dict[int, dict[str, str | None]] = {}
    for pk, shown, message in entries.values_list("pk", "object_repr", "change_message").iterator():
        if numbers.intersection(_NUMBER.findall(f"{shown} {message}")):
            # The row is deleted: no link points to it.
            changed[pk] = {"object_id": None, "object_repr": without(shown)}
            # Only if needed: this service writes no number into a message, and its role may not change messages.
            if without(message) != message:
                changed[pk]["change_message"] = without(message)
    for pk, values in changed.items():
        LogEntry.objects.filter(pk=pk).update(**values)
    return len(changed)


def _truncate_wal() -> bool | None:
    """Truncate SQLite's write-ahead log, which still has the old pages; in the database file SQLite overwrites what
    it deletes (PRAGMA secure_delete, in the settings). Returns whether it succeeded. PostgreSQL has VACUUM: None.
    """
    if db.VENDOR != "sqlite" or connection.in_atomic_block:
        return None
    return not db.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)")[0]
