from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.pipeline import ImportResult
from phonebook.imports.readers import base
from phonebook.management.import_command import REJECTED_ROWS, ImportCommand

SHOWN_DAYS = 10


class Command(ImportCommand):
    help = (
        "Import complaints from CSV files with the columns number, day, total and optionally robocalls, source and "
        "subject, or from another format that --format names. For each source, the days that the files contain, all "
        "files together, replace the stored ones; a block list replaces the numbers that it names and removes those "
        "with 0 votes. " + REJECTED_ROWS
    )
    importer = ComplaintImport
    noun = "complaint days"

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--source", help="Source of the complaints; default: that of the format, for csv import.")
        parser.add_argument(
            "--full", action="store_true", help="The block list is complete: remove the numbers that it does not name."
        )
        parser.add_argument(
            "--allow-loss",
            action="store_true",
            help="Import even if more than half of a day's or list's numbers are lost.",
        )

    def importer_options(self, options: dict[str, Any]) -> dict[str, Any]:
        try:
            source = None if options["source"] is None else base.parse_source(options["source"])
        except base.InvalidCell as error:
            raise CommandError(f"--source: {error}") from error
        today = datetime.now(UTC).date()
        return {"source": source, "today": today, "full": options["full"], "allow_loss": options["allow_loss"]}

    def summarize(self, result: ImportResult, titles: str, options: dict[str, Any]) -> None:
        super().summarize(result, titles, options)
        for day in result.days[:SHOWN_DAYS]:
            before = f", before: {day.before:,}" if day.before else ""
            self.stdout.write(f"  {day.source} {day.day}: complaints: {day.after:,}{before}")
        if (more := len(result.days) - SHOWN_DAYS) > 0:
            last = result.days[-1]
            self.stdout.write(f"  … and {more:,} more days, up to {last.source} {last.day}.")
        for day in result.days:
            if day.files > 1:
                self.stdout.write(f"Note: {day.source} {day.day} is in {day.files} files; their rows were added up.")
        if result.version is not None:
            self.stdout.write(f"Block list version {result.version}; get the next changes with since={result.version}.")
