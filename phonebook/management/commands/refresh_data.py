from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from core import history
from phonebook.imports import data_sets
from phonebook.imports.refresh import DEFAULT_SOURCES, AlreadyRunning, RefreshResult, refresh
from phonebook.management.import_command import BackgroundCommand, counts_text
from phonebook.models import ComplaintDay


class Command(BackgroundCommand):
    help = (
        "Download what the FTC, the FCC and PhoneBlock have published since the last run, and import it. Run it daily "
        "from cron. What fails changes nothing, is reported on stderr, and is tried again by the next run; the other "
        "sources are refreshed. Exit status 0 only if all worked. Default: the sources in REFRESH_SOURCES, or "
        f"{' and '.join(DEFAULT_SOURCES)}. PhoneBlock requires PHONEBLOCK_TOKEN."
    )
    json_help = "Print the counts of each source as one JSON object."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--source", action="append", choices=data_sets.PUBLISHED, help="Only this source; may be repeated."
        )
        parser.add_argument(
            "--full", action="store_true", help="PhoneBlock: get the whole list instead of the changes (once a month)."
        )
        parser.add_argument(
            "--allow-loss",
            action="store_true",
            help="Import even if a file has less than half of the rows of the one before, or half of a day is lost.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        sources = dict.fromkeys(options["source"] or settings.REFRESH_SOURCES or DEFAULT_SOURCES)
        results: dict[str, RefreshResult] = {}
        try:
            today = datetime.now(UTC).date()
            for source, result in refresh(sources, today=today, full=options["full"], allow_loss=options["allow_loss"]):
                results[source] = result
                self._report(source, result, options)
        except AlreadyRunning as error:
            raise CommandError("Another refresh_data is running. Nothing was changed.") from error
        except OSError as error:
            raise CommandError(f"{error.filename or 'A file'}: {error.strerror or error}") from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted. Run it again for the rest: nothing counts twice.") from error
        if options["json"]:
            self.write_json({source: asdict(result) for source, result in results.items()})
        if failed := sum(bool(result.errors) for result in results.values()):
            raise CommandError(f"{failed} of {len(results)} sources failed.")

    def _report(self, source: str, result: RefreshResult, options: dict[str, Any]) -> None:
        for error in result.errors:
            self.stderr.write(f"{source}: {error}.")
        if result.files:
            message = f"Imported ({source}, downloaded): {counts_text(result, all_of_them=True)}."
            history.record(action=history.Action.IMPORT, model=ComplaintDay, name="import", message=message)
        if options["json"]:
            return
        if result.files:
            files = f"{result.files:,} file{'s' * (result.files > 1)}"
            rejected = f"{sum(result.rejected.values()):,} rejected"
            self.stdout.write(f"{source}: {files}, {result.read:,} rows read, {rejected}. {counts_text(result)}.")
        elif not result.errors:
            self.stdout.write(f"{source}: nothing new.")
