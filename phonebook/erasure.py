"""Erasing what is known about numbers."""

import re
from collections.abc import Sequence

from django.contrib.admin.models import LogEntry
from django.db import transaction

from phonebook import cache_versions, suppression
from phonebook.imports.complaints import COMPLAINTS, drop_unused_subjects
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.staging import Tables
from phonebook.models import AddressBookContact, ComplaintDay, Contact, NumberRule

#: Replaces a number in the admin's history.
ERASED = "(erased)"
_NUMBER = re.compile(r"(?<![0-9])[1-9][0-9]{6,14}(?![0-9])")


def erase(numbers: Sequence[str], *, block: bool = False) -> dict[str, int]:
    """Delete what is known about `numbers`, and remove them from the admin's history. Returns how many rows were
    deleted, and how many history entries were changed (`admin_entries`). `block`: imports skip them from now on.
    `subjects`: those that no other number has; they may be free text about this one.
    """
    stored = [int(number) for number in numbers]
    # Waits for an import that is writing; one that is still reading sees the suppressed numbers when it writes.
    with Tables.lock(CONTACTS), Tables.lock(COMPLAINTS), transaction.atomic():
        # In the same transaction, so that cached vendor answers are invalid at the same moment in every process.
        (suppression.suppress if block else cache_versions.bump)(numbers)
        deleted = {
            "contacts": Contact.objects.filter(number__in=stored).delete()[0],
            "address_book_contacts": AddressBookContact.objects.filter(number__in=stored).delete()[0],
            "complaint_days": ComplaintDay.objects.filter(number__in=stored).delete()[0],
            "rules": NumberRule.objects.filter(number__in=stored).delete()[0],
        }
    return {
        **deleted,
        "admin_entries": _erase_from_history(frozenset(numbers)),
        "subjects": drop_unused_subjects() if deleted["complaint_days"] else 0,
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
            # The row is deleted: no link leads to it.
            changed[pk] = {"object_id": None, "object_repr": without(shown)}
            # Only if needed: this service writes no number into a message, and its role may not change messages.
            if without(message) != message:
                changed[pk]["change_message"] = without(message)
    for pk, values in changed.items():
        LogEntry.objects.filter(pk=pk).update(**values)
    return len(changed)
