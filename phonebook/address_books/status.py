"""How old each address book's last synchronization is: for the console and health checks."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from phonebook.models import AddressBook

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


def _status(row: AddressBook, now: datetime) -> BookStatus:
    age = max(timedelta(), now - row.synced_at) if row.synced_at else None
    return BookStatus(row, row.name in settings.ADDRESS_BOOKS, age)
