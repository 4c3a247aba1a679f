from typing import Any

from django.core.management.base import CommandError, CommandParser

from core import numbers
from phonebook.imports.contacts import ContactImport
from phonebook.management.import_command import REJECTED_ROWS, ImportCommand


class Command(ImportCommand):
    help = (
        "Import contacts from CSV files with the columns number, name and location, in any order, or from another "
        "format that --format names. Every number of a contact gets the contact's name and location, in place of "
        "stored ones; a number that occurs twice counts the first time. " + REJECTED_ROWS
    )
    importer = ContactImport
    noun = "contacts"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--region",
            help="Where numbers without a plus are dialed, such as US; without it they need their country code.",
        )

    def importer_options(self, options: dict[str, Any]) -> dict[str, Any]:
        region = options["region"] and options["region"].upper()
        if region and region not in numbers.REGIONS:
            raise CommandError(f"--region: {options['region']} is no ISO 3166-1 code such as US.")
        return {"region": region}
