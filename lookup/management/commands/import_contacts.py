"""Import contacts from a CSV file."""

from typing import IO, Any

from lookup.datasets import importers
from lookup.datasets.bulk import Progress
from lookup.management.importing import BAD_LINES, ImportCommand


class Command(ImportCommand):
    help = (
        "Import contacts from a CSV file with the columns number, name, location, named in its first line in any "
        "order; name or location is needed. A number has its country code and may have a +, spaces, hyphens, dots and "
        "parentheses. A contact that is there is replaced. Text is cut at 200 characters. " + BAD_LINES
    )
    noun = "contacts"

    def import_file(
        self, file: IO[bytes], on_reject: importers.OnReject, progress: Progress, options: dict[str, Any]
    ) -> importers.Imported:
        return importers.import_contacts(file=file, on_reject=on_reject, dry_run=options["dry_run"], progress=progress)
