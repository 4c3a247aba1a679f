from typing import Any

from django.core.management.base import CommandError, CommandParser

from contrib.file_lookups.process import process
from core.amounts import whole_number
from phonebook.management.import_command import BackgroundCommand


class Command(BackgroundCommand):
    help = (
        "Search the numbers of a file that was uploaded in the console. The console runs it; from the command line, "
        "use lookup_file."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number, help="Of the look-up.")
        parser.add_argument("run", help="That of the look-up; otherwise nothing is done.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            process(options["id"], options["run"])
        except (Exception, KeyboardInterrupt) as error:
            # The error may contain names and numbers, and this goes to the service's log.
            raise CommandError(f"Look-up {options['id']}: {type(error).__name__}; see its page.") from None
