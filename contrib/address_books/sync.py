"""Synchronizes address books, one after the other. A book that fails stays as it is, and does not affect the others."""

import os
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import close_old_connections, transaction
from django.db.models import Case, Exists, OuterRef, Sum, When, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from contrib.address_books import books, carddav, ldapsearch
from contrib.address_books.books import Book, BookFailed, Card, Changes
from contrib.address_books.models import AddressBook, AddressBookCard, AddressBookContact
from core.database_errors import describe
from core.db import yield_to_writers
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.pipeline import SUPPRESSED, OnReject, TransferResult, is_loss
from phonebook.imports.readers import base
from phonebook.imports.staging import Tables, chunks
from phonebook.models import Contact
from phonebook.suppression import SuppressedNumbers

#: How the runs are recorded: each succeeds if all address books were synchronized.
TASK = "sync_contacts"
#: Cards, or contacts, that are written at once: on SQLite in one transaction.
PART = 500


def sync(
    names: Iterable[str], *, on_reject: OnReject, full: bool = False, allow_loss: bool = False, dry_run: bool = False
) -> Iterator[tuple[str, TransferResult]]:
    """Synchronize the books of ADDRESS_BOOKS with these names, and yield each one's result, which counts numbers.

    `full`: transfer all cards, also unchanged ones. `allow_loss`: also if a book loses more than half of its numbers.
    `dry_run`: transfer and count, without changing anything.
    """
    for name in names:
        try:
            book = books.read(name, os.environ)
            last_synced_at, changes = _fetch(book, full=full)
            result = merge(
                book,
                changes,
                last_synced_at=last_synced_at,
                on_reject=on_reject,
                allow_loss=allow_loss,
                dry_run=dry_run,
            )
        except BookFailed as error:
            result = TransferResult(errors=[str(error)])
        except DatabaseFailure as error:
            result = TransferResult(errors=[f"database: {describe(error)}"])
            close_old_connections()  # the next book may need a new one
        if result.errors and not dry_run:
            try:
                failure = {"failed_at": timezone.now(), "error": result.errors[0][:200]}
                AddressBook.objects.update_or_create(name=name, defaults=failure)
            except DatabaseFailure:
                close_old_connections()  # the command prints the error itself
        yield name, result


def _fetch(book: Book, *, full: bool) -> tuple[datetime | None, Changes]:
    """When the last run was, and what has changed since."""
    row = AddressBook.objects.filter(pk=book.name).first() or AddressBook(name=book.name)
    known = dict(row.addressbookcard_set.values_list("key", "version").iterator())
    if full or row.settings_digest != book.digest:
        known = dict.fromkeys(known, "")
    return row.synced_at, (ldapsearch if book.query else carddav).fetch(book, known=known)


def merge(
    book: Book,
    changes: Changes,
    *,
    last_synced_at: datetime | None,
    on_reject: OnReject,
    allow_loss: bool = False,
    dry_run: bool = False,
) -> TransferResult:
    """Write the changes since the run at `last_synced_at` (None: all). With `dry_run`, only count.

    On PostgreSQL this is one transaction. On SQLite, where searches wait for it, a transaction has at most PART cards;
    the last one has what is removed, so that after an interruption the next run does the rest.
    Raises BookFailed if another run was faster, or if the book would lose more than half of its numbers, unless
    `allow_loss`.
    """
    if not allow_loss:
        _require_no_loss(book, changes)
    result = TransferResult(transferred=len(changes.cards))
    if changes.unreadable:
        result.errors.append(f"cards that cannot be read: {changes.unreadable:,}; --rejects lists them")
    # Waits for an import that is writing; `forget` waits for this. On PostgreSQL this is the transaction.
    with Tables.lock(CONTACTS), transaction.atomic() if dry_run else nullcontext():
        row, _ = AddressBook.objects.get_or_create(name=book.name, defaults={"settings_digest": book.digest})
        if row.synced_at != last_synced_at:
            raise BookFailed("another run synchronized it at the same time")
        _reject(book, [*changes.not_returned, *changes.cards.values()], result, on_reject)
        for part in chunks(changes.cards.items(), PART):
            with transaction.atomic():
                _merge_cards(row, dict(part), result)
            yield_to_writers()
        with transaction.atomic():
            for keys in chunks(changes.removed):
                gone = AddressBookCard.objects.filter(book=row, key__in=keys)
                result.removed += gone.delete()[1].get(AddressBookContact._meta.label, 0)
            row.settings_digest, row.synced_at, row.error = book.digest, timezone.now(), ""
            row.contacts = AddressBookContact.objects.filter(card__book=row).values("number").distinct().count()
            row.rejected = row.addressbookcard_set.aggregate(total=Sum("rejected", default=0))["total"]
            row.save()
        if dry_run:
            transaction.set_rollback(True)
        else:
            _publish()
    return result


def remove(name: str) -> int | None:
    """Delete a book and publish what remains of its numbers. Returns how many it had; None if there is no such book."""
    with Tables.lock(CONTACTS):
        deleted, by_model = AddressBook.objects.filter(pk=name).delete()  # with its cards and their numbers
        _publish()
    return by_model.get(AddressBookContact._meta.label, 0) if deleted else None


def _publish() -> None:
    """Write the contact of the first book into Contact, for each number that has no contact of its own there."""
    books = settings.ADDRESS_BOOKS
    position = Case(*(When(card__book=name, then=n) for n, name in enumerate(books)), default=len(books))
    # Of a book's cards the one that it has had for longest.
    nth = Window(RowNumber(), partition_by="number", order_by=[position, "card_id"])
    own = Contact.objects.filter(number=OuterRef("number"), book=None)
    first = AddressBookContact.objects.filter(~Exists(own)).annotate(nth=nth).filter(nth=1)
    wanted = {row[0]: row for row in first.values_list("number", "name", "location", "card__book_id")}
    published = Contact.objects.exclude(book=None).values_list("number", "name", "location", "book")
    for numbers in chunks(sorted({number for number, *_ in {*wanted.values()} ^ {*published}}), PART):
        contacts = [
            Contact(number=number, name=name, location=location, book=book)
            for number, name, location, book in (wanted[number] for number in numbers if number in wanted)
        ]
        with transaction.atomic():
            Contact.objects.filter(number__in=numbers).exclude(book=None).delete()
            # What was imported or entered in the console meanwhile is a conflict, and stays.
            Contact.objects.bulk_create(contacts, ignore_conflicts=True)
        yield_to_writers()


def _require_no_loss(book: Book, changes: Changes) -> None:
    """Raises BookFailed if more than half of the book's numbers would go: more often a mistake than wanted, such as in
    the rights of the user."""
    stored = AddressBookContact.objects.filter(card__book=book.name).values_list("card__key", "number")
    before, after = set[int](), {number for card in changes.cards.values() for number in card.contacts}
    for key, number in stored.iterator():
        before.add(number)
        if key not in changes.removed and key not in changes.cards:
            after.add(number)
    if is_loss(len(before - after), len(before)):
        lost = f"{len(before - after):,} of its {len(before):,} numbers"
        raise BookFailed(f"the book would lose {lost}; if that is right, use --allow-loss")


def _reject(book: Book, cards: Iterable[Card], result: TransferResult, on_reject: OnReject) -> None:
    """Count and report what is rejected, also the numbers that are suppressed."""
    suppressed = SuppressedNumbers()
    for card in cards:
        for number in list(card.contacts):
            if number in suppressed:
                del card.contacts[number]
                card.rejected.append(base.rejected(0, SUPPRESSED, number))
        result.read += len(card.contacts) + len(card.rejected) + card.repeated
        result.repeated += card.repeated
        shown = "".join(character if character.isprintable() else "?" for character in card.label[:200])
        for row in card.rejected:
            result.rejected[row.reason] = result.rejected.get(row.reason, 0) + 1
            on_reject(f"{book.name} {shown}", row)


def _merge_cards(row: AddressBook, cards: dict[str, Card], result: TransferResult) -> None:
    """Write the cards of one book, and their numbers in place of those before."""
    saved = AddressBookCard.objects.bulk_create(
        [
            AddressBookCard(
                book=row,
                key=key,
                version=card.version,
                rejected=sum(each.reason != base.NO_NUMBER for each in card.rejected),
            )
            for key, card in cards.items()
        ],
        update_conflicts=True,
        unique_fields=["book", "key"],
        update_fields=["version", "rejected"],
    )
    stored = AddressBookContact.objects.filter(card__in=saved)
    rows = stored.values_list("card", "number", "name", "location")
    before = {(card_id, number): (name, location) for card_id, number, name, location in rows}
    after = {(card.pk, number): values for card in saved for number, values in cards[card.key].contacts.items()}
    stored.delete()
    AddressBookContact.objects.bulk_create(
        AddressBookContact(card_id=card_id, number=number, name=name, location=location)
        for (card_id, number), (name, location) in after.items()
    )
    known = before.keys() & after.keys()
    unchanged = sum(before[each] == after[each] for each in known)
    result.unchanged += unchanged
    result.changed += len(known) - unchanged
    result.added += len(after.keys() - known)
    result.removed += len(before.keys() - known)
