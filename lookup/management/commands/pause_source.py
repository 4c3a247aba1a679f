from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from core.commands import JSONCommand
from lookup import pauses, source_actions


class Command(JSONCommand):
    help = (
        "Pause a source of SOURCE_A or SOURCE_B in all processes and hosts: it is not called until resume_source. Its "
        "cached answers are still used; otherwise it counts as failed (paused), never as not found, and the sources "
        f"after it in its slot are called. Running processes notice within {pauses.REFRESH_S:g} seconds. Recorded "
        "in the History."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", metavar="NAME", help="As in SOURCE_A or SOURCE_B.")
        parser.add_argument("--reason", required=True, help="Shown in the console.")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"]
        try:
            pause = source_actions.pause(name=name, reason=options["reason"])
            without = source_actions.slots_without_others(name)
        except (ValueError, ImproperlyConfigured) as error:
            raise CommandError(str(error)) from None
        if without:
            self.stderr.write(f"No source is left in {' and '.join(without)}.", self.style.WARNING)
        result = {"source": name, "paused_at": pause.paused_at, "paused_by": pause.paused_by, "reason": pause.reason}
        self.write_result(options, {**result, "slots_without_sources": without}, f"Paused {name}.")
