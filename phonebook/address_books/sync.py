"""Synchronizes address books, one after the other. A book that fails stays as it is, and does not affect the others."""

import os
from collections.abc import Iterable, Iterator

from django.db import Error as DatabaseFailure
from django.db import close_old_connections

from core.database_errors import describe
from phonebook.address_books import carddav, configuration, ldapsearch, store
from phonebook.address_books.changes import Changes, FetchFailed
from phonebook.address_books.configuration import Book, InvalidBook
from phonebook.address_books.store import NotMerged, SyncResult
from phonebook.imports.reading import OnReject

#: How the runs are recorded: each succeeds if all address books were synchronized.
TASK = "sync_contacts"


def sync(
    names: Iterable[str], *, on_reject: OnReject, full: bool = False, allow_loss: bool = False, dry_run: bool = False
) -> Iterator[tuple[str, SyncResult]]:
    """Synchronize the books of ADDRESS_BOOKS with these names, and yield each one's result.

    `full`: transfer all cards, also unchanged ones. `allow_loss`: also if a book loses more than half of its numbers.
    `dry_run`: transfer and count, without changing anything.
    """
    for name in names:
        try:
            book = configuration.read(name, os.environ)
            revision, changes = _fetch(book, full=full)
            result = store.merge(
                book, changes, revision=revision, on_reject=on_reject, allow_loss=allow_loss, dry_run=dry_run
            )
        except (InvalidBook, FetchFailed, NotMerged) as error:
            result = SyncResult(error=str(error))
        except DatabaseFailure as error:
            result = SyncResult(error=f"database: {describe(error)}")
            close_old_connections()  # the next book may need a new one
        if result.error and not dry_run:
            try:
                store.record_failure(name, result.error)
            except DatabaseFailure:
                close_old_connections()  # the command prints the error itself
        yield name, result


def _fetch(book: Book, *, full: bool) -> tuple[int, Changes]:
    """What has changed since the revision of the book's row, and that revision."""
    row, known = store.stored(book.name)
    sync_token = row.sync_token
    if full or row.settings_digest != book.digest:
        sync_token, known = "", dict.fromkeys(known, "")
    if book.query:
        return row.revision, ldapsearch.fetch(book, known=known)
    return row.revision, carddav.fetch(book, sync_token=sync_token, known=known)
