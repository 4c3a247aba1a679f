"""Forgetting numbers, everywhere that this service keeps them. docs/personal-data.md says what that does not reach."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.contrib.admin.models import LogEntry
from django.db import connection, transaction

from accounts import erasure as accounts_erasure
from lookup import marks
from lookup.datasets import bulk
from lookup.datasets.complaints import COMPLAINTS, drop_unused_subjects
from lookup.datasets.contacts import CONTACTS
from lookup.models import ComplaintDay, Contact, NumberRule

#: What stands in the admin's history instead of a number.
FORGOTTEN = "(forgotten)"
_NUMBER = re.compile(r"(?<![0-9])[1-9][0-9]{6,14}(?![0-9])")


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many there were: rows that were deleted, rows of the ledger and remembered answers that were emptied, entries
    of the admin's history from which the number was taken."""

    contacts: int
    complaint_days: int
    rules: int
    ledger_entries: int
    stored_answers: int
    admin_entries: int
    #: Of complaints, that no other number's complaint has: they may hold what somebody wrote about this one.
    subjects: int
    #: On SQLite: whether nothing of it is left in the database's file; a reader may be in the way.
    overwritten: bool | None


def forget(numbers: Iterable[str], *, block: bool = False) -> Forgotten:
    """Delete what is known about `numbers`, and take them out of what has to stay.

    `block`: imports leave them out from now on. Can be repeated at any time: broken off, it goes on where it was.
    """
    numbers = list(dict.fromkeys(numbers))
    stored = [int(number) for number in numbers]
    with _overwriting() as file:
        # An import that is writing comes first; one that still reads will see who is blocked when it comes to write.
        with bulk.one_at_a_time(CONTACTS), bulk.one_at_a_time(COMPLAINTS), transaction.atomic():
            # With the rows goes what is kept of vendors' answers: the same moment, in every process.
            marks.set(numbers, blocked=True if block else None)
            contacts = Contact.objects.filter(pk__in=stored).delete()[0]
            complaint_days = ComplaintDay.objects.filter(number__in=stored).delete()[0]
            rules = NumberRule.objects.filter(pk__in=stored).delete()[0]
        admin_entries = _forget_in_the_admins_history(frozenset(numbers))
        emptied = accounts_erasure.forget(numbers)
        subjects = drop_unused_subjects() if complaint_days else 0
    return Forgotten(
        contacts=contacts,
        complaint_days=complaint_days,
        rules=rules,
        ledger_entries=emptied.ledger_entries,
        stored_answers=emptied.stored_answers,
        admin_entries=admin_entries,
        subjects=subjects,
        overwritten=file.overwritten,
    )


def _forget_in_the_admins_history(numbers: frozenset[str]) -> int:
    """Who did what, and when, stays. Each entry is a write of its own: nobody waits for the reading."""

    def without(text: str) -> str:
        return _NUMBER.sub(lambda found: FORGOTTEN if found[0] in numbers else found[0], text)

    models = [model._meta.model_name for model in (Contact, ComplaintDay, NumberRule)]
    entries = LogEntry.objects.filter(content_type__app_label="lookup", content_type__model__in=models)
    changed: dict[int, dict[str, str | None]] = {}
    for pk, shown, message in entries.values_list("pk", "object_repr", "change_message").iterator():
        if numbers.intersection(_NUMBER.findall(f"{shown} {message}")):
            # Their object is a number, or a row that is gone.
            changed[pk] = {"object_id": None, "object_repr": without(shown)}
            # Nothing here writes a number into a message, and the serving role may not change one.
            if without(message) != message:
                changed[pk]["change_message"] = without(message)
    for pk, values in changed.items():
        LogEntry.objects.filter(pk=pk).update(**values)
    return len(changed)


@dataclass(slots=True)
class _File:
    overwritten: bool | None = None


@contextmanager
def _overwriting() -> Iterator[_File]:
    """On SQLite, empty the write-ahead log afterwards, which has the pages as they were: in the database itself every
    connection overwrites what it deletes (PRAGMA secure_delete, in the settings). PostgreSQL has its VACUUM."""
    file = _File()
    yield file
    if connection.vendor != "sqlite":
        return
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        file.overwritten = not busy
