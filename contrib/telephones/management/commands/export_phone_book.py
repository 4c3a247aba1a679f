from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from contrib.telephones import phone_books
from core.commands import JSONCommand


class Command(JSONCommand):
    help = (
        "Write all contacts that have a name, by name, as an XML phone book that telephones download. With "
        "CALLERID_COUNTRY_CODE, each number is written as the telephone system dials it too. FILE is replaced when the "
        "new one is complete, and every user of this machine can read it. See docs/telephone-systems.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", metavar="FILE", type=Path, help="Such as /var/www/telephones/phonebook.xml.")
        parser.add_argument("--format", choices=phone_books.FORMATS, required=True, help="Whose telephones read it.")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = phone_books.FORMATS[options["format"]]
        try:
            count = phone_books.write(options["file"], chosen)
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror or error}. Nothing was changed.") from error
        if chosen.limit and count > chosen.limit:
            self.stderr.write(
                f"{options['format'].title()} documents a limit of {chosen.limit:,} entries for the telephone's own "
                "directory, and none for downloaded ones: telephones may not read them all.",
                self.style.NOTICE,
            )
        self.write_result(options, {"entries": count}, f"Wrote {count:,} entries.")
