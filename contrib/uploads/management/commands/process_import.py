import resource
from typing import Any

from django.core.management.base import CommandError, CommandParser

from contrib.uploads.upload_process import process
from core.amounts import whole_number
from phonebook.management.import_command import BackgroundCommand

#: A file that needs more fails, rather than its host: a small one may unpack to 200 MB.
MAX_MEMORY_BYTES = 512 * 2**20


class Command(BackgroundCommand):
    help = (
        "Check or import a file that was uploaded in the console. The console runs it; to import a file from the "
        "command line, use import_contacts or import_complaints."
    )

    def run_from_argv(self, argv: list[str]) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        super().run_from_argv(argv)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number, help="Of the upload.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            process(options["id"])
        except (Exception, KeyboardInterrupt) as error:
            # The error may contain names and numbers, and this goes to the service's log.
            raise CommandError(f"Upload {options['id']}: {type(error).__name__}; see its page.") from None
