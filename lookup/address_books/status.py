"""How old each address book's last synchronization is: for the console and `doctor`."""

import os
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from lookup.address_books import configuration
from lookup.models import AddressBook

#: `sync_contacts` runs every hour.
STALE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BookStatus:
    """`synced_at`: when it last succeeded; None: never. `error`: why the last run failed; empty if it succeeded."""

    name: str
    is_configured: bool
    synced_at: datetime | None
    age: timedelta | None
    contacts: int
    rejected: int
    failed_at: datetime | None
    error: str

    @property
    def is_stale(self) -> bool:
        return self.age is None or self.age > STALE


def statuses(now: datetime) -> list[BookStatus]:
    """Of the books in ADDRESS_BOOKS, in their order, and of others that were synchronized before. One statement."""
    rows = AddressBook.objects.in_bulk()
    names = [*settings.ADDRESS_BOOKS, *sorted(set(rows) - set(settings.ADDRESS_BOOKS))]
    return [_status(rows.get(name) or AddressBook(name=name), now) for name in names]


def problems(now: datetime) -> list[str]:
    """A sentence for each book that needs an operator."""
    found = configuration.problems(os.environ)
    for book in statuses(now):
        if not book.is_configured:
            found.append(
                f"{book.name}: not in ADDRESS_BOOKS, its {book.contacts:,} contacts stay; add it, or run "
                f"manage.py sync_contacts --remove {book.name}."
            )
        elif book.error:
            found.append(f"{book.name}: the last run failed ({book.error}).")
        elif book.is_stale:
            when = f"last synchronized at {book.synced_at:%Y-%m-%d %H:%M}" if book.synced_at else "never synchronized"
            found.append(f"{book.name}: {when}.")
    return found


def _status(row: AddressBook, now: datetime) -> BookStatus:
    return BookStatus(
        name=row.name,
        is_configured=row.name in settings.ADDRESS_BOOKS,
        synced_at=row.synced_at,
        age=max(timedelta(), now - row.synced_at) if row.synced_at else None,
        contacts=row.contacts,
        rejected=row.rejected,
        failed_at=row.failed_at,
        error=row.error,
    )
