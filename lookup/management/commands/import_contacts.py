"""Import contacts from an address book."""

from typing import Any

import phonenumbers
from django.core.management.base import CommandParser

from lookup.datasets import formats
from lookup.datasets.contacts import import_contacts
from lookup.datasets.files import open_text
from lookup.datasets.importers import Imported, OnReject, Watch
from lookup.management.importing import BAD_ROWS, ImportCommand
from lookup.models import Contact

REGION_NEEDED = {"number has no country code", "number does not fit its country's numbering plan"}


class Command(ImportCommand):
    help = (
        "Import contacts from vCard 2.1, 3.0 or 4.0, from Google's or Outlook's CSV, or from a CSV file with the "
        "columns number, name and location, named in its first line in any order. The format is recognised. Every "
        "number of a contact is imported, with the contact's name and place; a number that is there gets the new ones; "
        "one that comes twice counts where it comes first. Text is cut at 200 characters. " + BAD_ROWS
    )
    read_noun = "number"
    noun = "contacts"
    model = Contact
    formats = formats.CONTACTS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="Plain or gzip; - for standard input.")
        super().add_arguments(parser)
        parser.add_argument(
            "--region",
            type=_region,
            help="Where numbers without a plus are dialled, such as US; without it they have their country code.",
        )

    def import_files(self, options: dict[str, Any], on_reject: OnReject, watch: Watch) -> Imported:
        with open_text(options["file"], encoding=options["encoding"]) as file:
            return import_contacts(
                file=file,
                on_reject=on_reject,
                format_name=options["format"],
                region=options["region"],
                dry_run=options["dry_run"],
                watch=watch,
            )

    def summarise(self, result: Imported, options: dict[str, Any]) -> None:
        super().summarise(result, options)
        if options["region"] is None and REGION_NEEDED & result.rejected.keys():
            self.stdout.write(
                "Numbers without a country code are read with --region, such as --region US. Without it "
                "they must begin with a plus, but for those of a plain CSV file."
            )


def _region(text: str) -> str:
    region = text.upper()
    if region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError
    return region


_region.__name__ = "region (ISO 3166-1 alpha-2, such as US)"  # argparse: "invalid … value"
