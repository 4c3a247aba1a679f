"""Erases numbers everywhere in this service, while searches are answered. docs/personal-data.md says what it does not
reach."""

import re
from collections.abc import Iterable, Sequence

from django.contrib.admin.models import LogEntry
from django.db import connection
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from accounts.models import CreditEntry, IdempotencyRecord
from core import db
from core import numbers as phone_numbers
from core.hashing import keyed_hash
from core.retention import NUMBERED, update_in_batches
from phonebook import cache_versions, suppression
from phonebook.imports import batches
from phonebook.imports.complaints import COMPLAINTS, drop_unused_subjects
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.staging import Tables
from phonebook.models import ComplaintDay, Contact, NumberRule

BATCH_ROWS = 500
#: Replaces a number in the admin's history.
ERASED = "(erased)"
_NUMBER = re.compile(r"(?<![0-9])[1-9][0-9]{6,14}(?![0-9])")


def spellings(text: str) -> list[str]:
    """The number that somebody typed; also its digits as they are if these are another number, because the API takes
    digits as they are and may have stored them. Raises InvalidNumber."""
    read = phone_numbers.parse_typed(text)
    digits = phone_numbers.without_separators(text).removeprefix("+")
    return [read, digits] if digits != read and phone_numbers.is_number(digits) else [read]


def shown(number: str) -> str:
    """Masked, with its country: a number whose country code was left out is another country's."""
    return f"{phone_numbers.mask(number)} ({phone_numbers.likely_region(number) or 'no country'})"


def count(numbers: Sequence[str]) -> dict[str, int]:
    """How many rows `erase` would delete or change, by its names; without `subjects`. Raises OperationalError."""
    counts = {}
    for name, rows in _rows(numbers).items():
        with db.scan():
            counts[name] = rows.count()
    for each in NUMBERED:
        with db.scan():
            counts[each.name] = import_string(each.count)(numbers)
    return counts | {"imports": len(batches.holding(numbers)), "admin_entries": len(_history_with(frozenset(numbers)))}


def erase(numbers: Iterable[str], *, block: bool = False, wait: bool = True) -> dict[str, int | bool | None]:
    """Delete what is known about `numbers`, and remove them from what has to be kept.

    `block`: imports skip them from now on. Can be repeated at any time, also after an interruption. Returns how many
    rows were deleted or changed. `subjects`: those that no other number has; they may be free text about this one.
    `overwritten`: on SQLite, whether nothing is left in the database's files, which a concurrent reader may prevent;
    otherwise None. Raises OperationalError if the database does not answer in time, and, unless it may `wait` for an
    import that is writing, LockNotAvailable.
    """
    numbers = list(dict.fromkeys(numbers))
    deleted = _delete(numbers, block=block, wait=wait)
    return {
        **deleted,
        # Always: an erasure that was interrupted here finds no complaint any more.
        "subjects": drop_unused_subjects(wait=wait),
        "admin_entries": _erase_from_history(frozenset(numbers)),
        **_erase_from_ledger(numbers),
        **_erase_of_addons(numbers, at_once=False),
        "overwritten": _truncate_wal(),
    }


def _known(numbers: Sequence[str]) -> dict[str, QuerySet]:
    models = {
        "contacts": Contact,
        "complaint_days": ComplaintDay,
        "rules": NumberRule,
    }
    return {name: model._default_manager.filter(number__in=map(int, numbers)) for name, model in models.items()}


def _hashed(numbers: Sequence[str]) -> dict[str, QuerySet]:
    """Neither table has an index on the number's hash."""
    hashes = [keyed_hash("number", number) for number in numbers]
    models = {"ledger_entries": CreditEntry, "stored_answers": IdempotencyRecord}
    return {name: model._default_manager.filter(number_hash__in=hashes) for name, model in models.items()}


def _rows(numbers: Sequence[str]) -> dict[str, QuerySet]:
    return {
        **_known(numbers),
        **_hashed(numbers),
    }


def _delete(numbers: Sequence[str], *, block: bool, wait: bool) -> dict[str, int]:
    # Waits for an import that is writing; one that is still reading sees the suppressed numbers when it writes.
    with (
        Tables.lock(CONTACTS, wait=wait),
        Tables.lock(COMPLAINTS, wait=wait),
        db.statement_timeout(db.SCAN_TIMEOUT_S),
    ):
        # In the same transaction, so that cached vendor answers are invalid at the same moment in every process.
        (suppression.suppress if block else cache_versions.bump)(numbers)
        deleted = {name: rows.delete()[0] for name, rows in _known(numbers).items()}
        return deleted | {"imports": batches.erase(numbers)} | _erase_of_addons(numbers, at_once=True)


def _erase_of_addons(numbers: Sequence[str], *, at_once: bool) -> dict[str, int]:
    return {each.name: import_string(each.erase)(numbers) for each in NUMBERED if each.at_once is at_once}


def _erase_from_ledger(numbers: Sequence[str]) -> dict[str, int]:
    """Amounts, balances and request ids stay, so the audit still agrees.

    An idempotency record loses the number's hash too, because it refers to the ledger entry and would tell its number.
    The next request with its `Idempotency-Key` searches again, uncharged (accounts.idempotency).

    The ledger may be long: each table is scanned once for all numbers, without a lock, and updated in short
    transactions. Rows that were erased before are not found again.
    """
    rows = _hashed(numbers)
    entries, records = rows["ledger_entries"], rows["stored_answers"]
    return {
        "ledger_entries": update_in_batches(entries, BATCH_ROWS, number_hash=None),
        "stored_answers": update_in_batches(records, BATCH_ROWS, number_hash=None, answer="", claim_expires_at=None),
    }


def _erase_from_history(numbers: frozenset[str]) -> int:
    """Keeps who did what and when; returns how many entries changed. Writes each by itself, after reading: on SQLite a
    transaction around both would block other writers."""
    changed = _history_with(numbers)
    for pk, values in changed.items():
        LogEntry.objects.filter(pk=pk).update(**values)
    return len(changed)


def _history_with(numbers: frozenset[str]) -> dict[int, dict[str, str | None]]:
    """Of the entries that contain one of `numbers`, what to write instead. Those of this version have masked numbers
    (phonebook.admin.number_admin)."""

    def without(text: str) -> str:
        return _NUMBER.sub(lambda found: ERASED if found[0] in numbers else found[0], text)

    models = [model._meta.model_name for model in (Contact, ComplaintDay, NumberRule)]
    entries = LogEntry.objects.filter(content_type__app_label="phonebook", content_type__model__in=models)
    changed: dict[int, dict[str, str | None]] = {}
    with db.scan():
        for pk, shown, message in entries.values_list("pk", "object_repr", "change_message").iterator():
            if numbers.intersection(_NUMBER.findall(f"{shown} {message}")):
                # The row is deleted: no link points to it.
                changed[pk] = {"object_id": None, "object_repr": without(shown)}
                # Only if needed: this service writes no number into a message, and its role may not change messages.
                if without(message) != message:
                    changed[pk]["change_message"] = without(message)
    return changed


def _truncate_wal() -> bool | None:
    """Truncate SQLite's write-ahead log, which still has the old pages; in the database file SQLite overwrites what
    it deletes (PRAGMA secure_delete, in the settings). Returns whether it succeeded. PostgreSQL has VACUUM: None.
    """
    if db.VENDOR != "sqlite" or connection.in_atomic_block:
        return None
    return not db.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)")[0]
