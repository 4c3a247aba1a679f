from typing import Any

from django.core.management.base import CommandError, CommandParser

from core.commands import JSONCommand
from lookup import source_actions


class Command(JSONCommand):
    help = "Have a source that was paused called again, in all processes and hosts. Recorded in the History."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="As in pause_source.")
        parser.add_argument("--reason", default="", help="Shown in the History.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            source_actions.resume(name=options["name"], reason=options["reason"])
        except ValueError as error:
            raise CommandError(str(error)) from None
        self.write_result(options, {"source": options["name"]}, f"Resumed {options['name']}.")
