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
    """`age`: of the last synchronization that succeeded; None: never."""

    row: AddressBook
    is_configured: bool
    age: timedelta | None

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
        row = book.row
        if not book.is_configured:
            found.append(
                f"{row.name}: not in ADDRESS_BOOKS, its {row.contacts:,} contacts stay; add it, or run "
                f"manage.py sync_contacts --remove {row.name}."
            )
        elif row.error:
            found.append(f"{row.name}: the last run failed ({row.error}).")
        elif book.is_stale:
            when = f"last synchronized at {row.synced_at:%Y-%m-%d %H:%M}" if row.synced_at else "never synchronized"
            found.append(f"{row.name}: {when}.")
    return found


def _status(row: AddressBook, now: datetime) -> BookStatus:
    age = max(timedelta(), now - row.synced_at) if row.synced_at else None
    return BookStatus(row, row.name in settings.ADDRESS_BOOKS, age)
