"""Import complaints from the regulators' files, from a block list, or counted by day."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from lookup.datasets import formats, reading
from lookup.datasets.complaints import import_complaints
from lookup.datasets.files import open_text
from lookup.datasets.importers import Imported, OnReject, Replaced, Watch
from lookup.management.importing import BAD_ROWS, ImportCommand
from lookup.models import ComplaintDay

SHOWN_DAYS = 10


class Command(ImportCommand):
    help = (
        "Import complaints from the FTC's Do Not Call files, the FCC's unwanted calls, PhoneBlock's block list, or CSV "
        "files with the columns number, day, total and, if wanted, robocalls, source and subject. The format of each "
        "file is recognised. For each source, the days that the files hold, all files together, replace what was there "
        "for those days: importing a file twice counts nothing twice, and a later day's file adds to it. A day that is "
        "spread over several files must be imported by one command: one that would lose more than half of its "
        "complaints is refused, unless --allow-loss. PhoneBlock's list replaces the numbers that it names; those with "
        "0 votes are removed, and with --full all that it does not name. " + BAD_ROWS
    )
    read_noun = "row"
    noun = "complaint days"
    model = ComplaintDay
    formats = formats.COMPLAINTS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+", help="Plain or gzip; - for standard input.")
        super().add_arguments(parser)
        parser.add_argument(
            "--source", help="Whose complaints these are; else ftc, fcc, phoneblock, or import, by the format."
        )
        parser.add_argument(
            "--full", action="store_true", help="A block list is complete: what it does not name is removed."
        )
        parser.add_argument(
            "--allow-loss", action="store_true", help="Go on when a day or a list loses more than half of what it has."
        )

    def import_files(self, options: dict[str, Any], on_reject: OnReject, watch: Watch) -> Imported:
        try:
            source = None if options["source"] is None else reading.source(options["source"])
        except reading.InvalidSource as error:
            raise CommandError(f"--source: {error}") from error
        return import_complaints(
            files=(open_text(path, encoding=options["encoding"]) for path in options["files"]),
            today=datetime.now(UTC).date(),
            on_reject=on_reject,
            format_name=options["format"],
            source=source,
            full=options["full"],
            allow_loss=options["allow_loss"],
            dry_run=options["dry_run"],
            watch=watch,
        )

    def summarise(self, result: Imported, options: dict[str, Any]) -> None:
        super().summarise(result, options)
        for day in result.days[:SHOWN_DAYS]:
            self.stdout.write(f"  {day.source} {day.day}: {_change(day)}")
        if (more := len(result.days) - SHOWN_DAYS) > 0:
            last = result.days[-1]
            self.stdout.write(f"  … and {more:,} more days, up to {last.source} {last.day}.")
        for day in (day for day in result.days if day.files > 1):
            self.stdout.write(f"Note: {day.source} {day.day} is in {day.files} files; their rows were added up.")
        for day in (day for day in result.days if day.loses):
            self.stdout.write(
                self.style.WARNING(
                    f"Warning: {day.source} {day.day}: {day.gone:,} of {day.numbers:,} numbers are in it no more. "
                    "A day that is spread over several files must be imported from all of them by one command."
                )
            )
        if result.version is not None:
            self.stdout.write(f"This is version {result.version}: the next changes are those since={result.version}.")


def _change(day: Replaced) -> str:
    return f"complaints: {day.after:,}" + (f", before: {day.before:,}" if day.before else "")
