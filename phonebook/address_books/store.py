"""Writes what has changed in an address book, and publishes it to Contact in the same transaction."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Sum
from django.utils import timezone

from core.db import yield_to_writers
from phonebook import cache_versions, suppression
from phonebook.address_books.changes import Changes
from phonebook.address_books.configuration import Book
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.readers import base
from phonebook.imports.reading import SUPPRESSED, OnReject, is_loss
from phonebook.imports.staging import Counts, Tables, chunks
from phonebook.models import AddressBook, AddressBookCard, AddressBookContact, Contact

#: Cards in one transaction on SQLite.
PART = 500
#: The position of a book that ADDRESS_BOOKS does not name any more: after all others.
LAST = 32_767


class NotMerged(Exception):
    """The changes were refused, and nothing was written. The message is for operators."""


@dataclass(slots=True)
class SyncResult(Counts):
    """Counts of numbers. `read`: those of the `cards` that were transferred. `error`: why nothing was changed."""

    cards: int = 0
    error: str = ""
    #: Cards that are gone; their numbers are `removed`.
    removed_cards: int = 0


def stored(name: str) -> tuple[AddressBook, dict[str, str]]:
    """The row of a book, a new one if it was never synchronized, and the version of each card by its key."""
    row = AddressBook.objects.filter(pk=name).first() or AddressBook(name=name)
    cards = AddressBookCard.objects.filter(book=name).values_list("key", "version")
    return row, dict(cards.iterator())


def merge(
    book: Book,
    changes: Changes,
    *,
    revision: int,
    on_reject: OnReject,
    allow_loss: bool = False,
    dry_run: bool = False,
) -> SyncResult:
    """Write the changes since the `revision` of the book's row. With `dry_run`, only count.

    On PostgreSQL this is one transaction. On SQLite, where searches wait for it, a transaction has at most PART cards;
    the last one has what is removed and the sync token, so that after an interruption the next run does the rest.
    Raises NotMerged if another run was faster, or if the book would lose more than half of its numbers, unless
    `allow_loss`.
    """
    if not allow_loss:
        _require_no_loss(book, changes)
    result = SyncResult(cards=len(changes.cards), removed_cards=len(changes.removed))
    parts = _parts(changes) if Tables.merges_in_parts and not dry_run else [changes]
    for part in parts:
        # Waits for an import that is writing; `forget` waits for this.
        with Tables.lock(CONTACTS), transaction.atomic():
            order_changed = _set_positions(book.name)
            row = AddressBook.objects.select_for_update().get(pk=book.name)
            if row.revision != revision:
                raise NotMerged("another run synchronized it at the same time")
            _reject(book, part, result, on_reject)
            touched = _merge_cards(row, part, result)
            row.revision = revision = revision + 1
            # Until the last part, cards of the settings before may be left.
            if part is parts[-1] or not row.settings_digest:
                row.settings_digest = book.digest
            if part is parts[-1]:
                row.sync_token = changes.sync_token
                row.synced_at, row.error = timezone.now(), ""
                row.contacts = AddressBookContact.objects.filter(card__book=row).values("number").distinct().count()
                cards = AddressBookCard.objects.filter(book=row)
                row.rejected = cards.aggregate(total=Sum("rejected", default=0))["total"]
                # Also the numbers whose imported or entered contact was deleted since the last run.
                own = Contact.objects.filter(number=OuterRef("number"))
                touched.update(AddressBookContact.objects.filter(~Exists(own)).values_list("number", flat=True))
            row.save()
            if order_changed:
                touched = set(AddressBookContact.objects.values_list("number", flat=True))
            _publish(touched)
            if dry_run:
                transaction.set_rollback(True)
        yield_to_writers()
    return result


def record_failure(name: str, error: str) -> None:
    """Record when and why the synchronization of a book failed."""
    failure = {"failed_at": timezone.now(), "error": error[:200]}
    AddressBook.objects.update_or_create(
        name=name, defaults=failure, create_defaults={"position": _position(name), **failure}
    )


def remove(name: str) -> int | None:
    """Delete a book and publish what remains of its numbers. Returns how many it had; None if there is no such book."""
    with Tables.lock(CONTACTS), transaction.atomic():
        numbers = set(AddressBookContact.objects.filter(card__book=name).values_list("number", flat=True))
        deleted, by_model = AddressBook.objects.filter(pk=name).delete()  # with its cards and their numbers
        _publish(numbers)
    return by_model.get(AddressBookContact._meta.label, 0) if deleted else None


def erase(numbers: Iterable[int]) -> int:
    """Delete the numbers from all books; call it in Tables.lock(CONTACTS), and delete them from Contact too. The cards
    stay known, so the numbers do not return until their cards change."""
    return AddressBookContact.objects.filter(number__in=numbers).delete()[0]


# --- Merging ---------------------------------------------------------------------------------------------------------


def _require_no_loss(book: Book, changes: Changes) -> None:
    """Raises NotMerged if more than half of the book's numbers would go: more often a mistake, such as in the rights of
    the user, than wanted."""
    before, after = set[int](), {number for card in changes.cards.values() for number in card.contacts}
    stored = AddressBookContact.objects.filter(card__book=book.name).values_list("card__key", "number")
    for key, number in stored.iterator():
        before.add(number)
        if key not in changes.removed and key not in changes.cards:
            after.add(number)
    if is_loss(len(before - after), len(before)):
        lost = f"{len(before - after):,} of its {len(before):,} numbers"
        raise NotMerged(f"the book would lose {lost}; if that is right, use --allow-loss")


def _parts(changes: Changes) -> list[Changes]:
    parts = [Changes(dict(cards)) for cards in chunks(changes.cards.items(), PART)] or [Changes()]
    parts[0].not_returned = changes.not_returned
    parts[-1].removed = changes.removed
    return parts


def _position(name: str) -> int:
    return settings.ADDRESS_BOOKS.index(name) if name in settings.ADDRESS_BOOKS else LAST


def _set_positions(name: str) -> bool:
    """Create the row of the book `name`, and give all rows their positions in ADDRESS_BOOKS. Returns whether the order
    of existing rows has changed."""
    changed = False
    for row in AddressBook.objects.all():
        if row.position != (position := _position(row.pk)):
            AddressBook.objects.filter(pk=row.pk).update(position=position)
            changed = True
    AddressBook.objects.get_or_create(name=name, defaults={"position": _position(name)})
    return changed


def _reject(book: Book, part: Changes, result: SyncResult, on_reject: OnReject) -> None:
    """Count and report what is rejected, also the numbers that are suppressed now."""
    suppressed = suppression.suppressed_hashes()
    for card in (*part.not_returned, *part.cards.values()):
        if suppressed:
            for number in [number for number in card.contacts if cache_versions.hash_of(number) in suppressed]:
                del card.contacts[number]
                card.rejected.append(base.rejected(0, SUPPRESSED, number))
        result.read += len(card.contacts) + len(card.rejected)
        for row in card.rejected:
            result.rejected[row.reason] = result.rejected.get(row.reason, 0) + 1
            on_reject(f"{book.name} {card.label}", row)


def _merge_cards(row: AddressBook, changes: Changes, result: SyncResult) -> set[int]:
    """Write the cards of one book and their numbers. Returns the numbers that were added, changed or removed."""
    touched: set[int] = set()
    for keys in chunks(changes.removed):
        gone = AddressBookContact.objects.filter(card__book=row, card__key__in=keys)
        touched.update(gone.values_list("number", flat=True))
        result.removed += gone.delete()[0]
        AddressBookCard.objects.filter(book=row, key__in=keys).delete()
    for items in chunks(changes.cards.items()):
        cards = [
            AddressBookCard(book=row, key=key, version=card.version, rejected=len(card.rejected)) for key, card in items
        ]
        AddressBookCard.objects.bulk_create(
            cards, update_conflicts=True, unique_fields=["book", "key"], update_fields=["version", "rejected"]
        )
        keys = [key for key, _ in items]
        ids = dict(AddressBookCard.objects.filter(book=row, key__in=keys).values_list("key", "pk"))
        contacts = AddressBookContact.objects.filter(card_id__in=ids.values())
        stored = {(contact.card_id, contact.number): contact for contact in contacts}
        wanted = {(ids[key], number): values for key, card in items for number, values in card.contacts.items()}
        known = wanted.keys() & stored.keys()
        same = {each for each in known if (stored[each].name, stored[each].location) == wanted[each]}
        old = [stored[each].pk for each in stored.keys() - same]
        for replaced in chunks(old):  # the numbers of a card have no limit, a statement's parameters have
            AddressBookContact.objects.filter(pk__in=replaced).delete()
        AddressBookContact.objects.bulk_create(
            AddressBookContact(card_id=card_id, number=number, name=name, location=location)
            for (card_id, number), (name, location) in wanted.items()
            if (card_id, number) not in same
        )
        result.unchanged += len(same)
        result.changed += len(known - same)
        result.added += len(wanted.keys() - known)
        result.removed += len(stored.keys() - known)
        touched.update(number for _, number in (wanted.keys() | stored.keys()) - same)
    return touched


# --- Publishing ------------------------------------------------------------------------------------------------------


def _publish(numbers: Iterable[int]) -> None:
    """Write the contact of the first book into Contact, for each number that has no contact of its own there."""
    for chunk in chunks(sorted(numbers)):
        cards = AddressBookContact.objects.filter(number__in=chunk)
        # The last one counts: that of the first book, and of a book's cards the one that it has had for longest.
        ordered = cards.order_by(F("card__book__position").desc(), "-card_id")
        now = timezone.now()
        best = {
            number: Contact(number=number, name=name, location=location, book=book, updated_at=now)
            for number, name, location, book in ordered.values_list("number", "name", "location", "card__book_id")
        }
        # Locked, so that the console does not change them meanwhile. What it adds meanwhile is a conflict, and stays.
        stored = Contact.objects.select_for_update().order_by("number").in_bulk(chunk, field_name="number")
        published = {number: contact for number, contact in stored.items() if contact.book is not None}
        new = [contact for number, contact in best.items() if number not in stored]
        changed = [
            best[number] for number in published.keys() & best if _values(published[number]) != _values(best[number])
        ]
        Contact.objects.filter(number__in=published.keys() - best).delete()
        Contact.objects.bulk_create(new, ignore_conflicts=True)
        # bulk_update takes several times as long.
        Contact.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["number"], update_fields=[*_VALUES, "updated_at"]
        )


_VALUES = ("name", "location", "book")
_values = attrgetter(*_VALUES)
