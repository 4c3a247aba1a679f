from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from contrib.file_formats.conf import SOURCES
from contrib.file_formats.refresh import DEFAULT_SOURCES, AlreadyRunning, refresh
from phonebook.management.import_command import BackgroundCommand
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
        parser.add_argument("--source", action="append", choices=SOURCES, help="Only this source; may be repeated.")
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
        results = refresh(
            sources, today=datetime.now(UTC).date(), full=options["full"], allow_loss=options["allow_loss"]
        )
        try:
            count, failed = self.report_each(results, options, model=ComplaintDay, unit="file", done="Downloaded")
        except AlreadyRunning as error:
            raise CommandError("Another refresh_data is running. Nothing was changed.") from error
        except OSError as error:
            raise CommandError(f"{error.filename or 'A file'}: {error.strerror or error}") from error
        if failed:
            raise CommandError(f"{failed} of {count} sources failed.")
