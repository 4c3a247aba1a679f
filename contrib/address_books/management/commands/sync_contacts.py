from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from contrib.address_books.models import AddressBook
from contrib.address_books.sync import TASK, remove, sync
from core import history
from core.commands import task_ended
from phonebook.imports.readers import base
from phonebook.imports.readers.base import Rejected
from phonebook.management.import_command import BackgroundCommand, RejectList
from phonebook.models import Contact


class Command(BackgroundCommand):
    help = (
        "Synchronize the address books in ADDRESS_BOOKS, from CardDAV or LDAP: transfer what has changed since the "
        "last run, and delete what is gone. Of a number that is in several books the first book's contact is used; "
        "contacts that were imported or entered in the console never change. Numbers that cannot be used are "
        "rejected and counted by reason; the first 20 are listed on stderr, masked; all of them, with their "
        "cards, with --rejects FILE. Run it every hour. A book that fails stays as it is and is reported on stderr; "
        "the others are synchronized. Exit status 0 only if all worked. See docs/address-books.md."
    )
    json_help = "Print the counts of each book as one JSON object."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--full", action="store_true", help="Transfer all cards, also those that have not changed.")
        parser.add_argument(
            "--allow-loss", action="store_true", help="Also if a book would lose more than half of its numbers."
        )
        parser.add_argument("--rejects", metavar="FILE", help="List all rejected rows in FILE, which must not exist.")
        parser.add_argument("--dry-run", action="store_true", help="Transfer, check and count; change nothing.")
        parser.add_argument("--remove", metavar="NAME", help="Delete this book's contacts here, and do nothing else.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["remove"]:
            self._remove(options["remove"])
            return
        if not settings.ADDRESS_BOOKS:
            raise CommandError("Set ADDRESS_BOOKS, such as ADDRESS_BOOKS=office. See docs/address-books.md.")
        with RejectList(self, options["rejects"]) as rejects:

            def without_card(place: str, row: Rejected) -> None:
                """Standard error becomes a log, and a card's path may have a name or a number. Cards without a number,
                which many address books have, are only counted."""
                if row.reason != base.NO_NUMBER:
                    rejects.add(place.partition(" ")[0], replace(row, line=0, contact=""))

            results = sync(
                settings.ADDRESS_BOOKS,
                on_reject=rejects.add if options["rejects"] else without_card,
                full=options["full"],
                allow_loss=options["allow_loss"],
                dry_run=options["dry_run"],
            )
            count, failed = self.report_each(results, options, model=Contact, unit="card", done="Synchronized")
        if not options["dry_run"]:
            task_ended.send(Command, task=TASK, succeeded=not failed)
        elif not options["json"]:
            self.stdout.write("Dry run: nothing was changed.")
        if failed:
            raise CommandError(f"{failed} of {count} address books failed.")

    def _remove(self, name: str) -> None:
        if name in settings.ADDRESS_BOOKS:
            raise CommandError(f"{name} is in ADDRESS_BOOKS and would be added again: remove it there first.")
        count = remove(name)
        if count is None:
            raise CommandError(f"There is no address book {name}.")
        if not AddressBook.objects.exists():
            task_ended.send(Command, task=TASK, succeeded=None)
        message = f"Removed the address book {name} with {count:,} contacts."
        history.record(action=history.Action.DELETION, model=Contact, name=name, message=message)
        self.stdout.write(message)
