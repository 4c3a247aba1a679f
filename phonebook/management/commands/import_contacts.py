from typing import Any

import phonenumbers
from django.core.management.base import CommandParser

from phonebook.imports.contacts import ContactImport
from phonebook.imports.pipeline import ImportResult
from phonebook.management.import_command import REJECTED_ROWS, ImportCommand

REGION_NEEDED = {"number has no country code", "number does not fit its country's numbering plan"}


class Command(ImportCommand):
    help = (
        "Import contacts from vCard 2.1, 3.0 or 4.0, from Google's or Outlook's CSV, or from a CSV file with the "
        "columns number, name and location, in any order. Every number of a contact gets the contact's name and "
        "location, in place of stored ones; a number that occurs twice counts the first time. " + REJECTED_ROWS
    )
    importer = ContactImport
    noun = "contacts"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--region",
            type=_region,
            help="Where numbers without a plus are dialed, such as US; without it they need their country code.",
        )

    def importer_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"region": options["region"]}

    def summarize(self, result: ImportResult, titles: str, options: dict[str, Any]) -> None:
        super().summarize(result, titles, options)
        if options["region"] is None and REGION_NEEDED & result.rejected.keys():
            self.stdout.write(
                "To import numbers without a country code, add --region, such as --region US. Without it, numbers must "
                "begin with a plus, except in a plain CSV file."
            )


def _region(text: str) -> str:
    region = text.upper()
    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError
    return region


_region.__name__ = "region (ISO 3166-1 alpha-2, such as US)"  # argparse: "invalid … value"
