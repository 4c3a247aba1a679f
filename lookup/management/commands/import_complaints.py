"""Import complaint counts from a CSV file."""

from datetime import UTC, datetime
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser

from lookup.datasets import importers
from lookup.datasets.bulk import Progress
from lookup.datasets.plain_csv import InvalidSource
from lookup.management.importing import BAD_LINES, ImportCommand


class Command(ImportCommand):
    help = (
        "Import complaint counts from a CSV file with the columns number, day, total and, if wanted, robocalls and "
        "source, named in its first line in any order. A number has its country code; a day looks like 2026-01-31. A "
        "line replaces what is there for its number, source and day, so importing a file twice counts nothing twice. "
        + BAD_LINES
    )
    noun = "complaint days"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", default="import", help="Whose counts these are, where a line names no source (default: import)."
        )

    def import_file(
        self, file: IO[bytes], on_reject: importers.OnReject, progress: Progress, options: dict[str, Any]
    ) -> importers.Imported:
        try:
            return importers.import_complaints(
                file=file,
                source=options["source"],
                today=datetime.now(UTC).date(),
                on_reject=on_reject,
                dry_run=options["dry_run"],
                progress=progress,
            )
        except InvalidSource as error:
            raise CommandError(f"--source: {error}") from error
