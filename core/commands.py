"""The base of the commands with a --json option."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.dispatch import Signal

#: A maintenance command has ended. `task`: its name; `succeeded`: None to forget the task, which is not
#: configured any more.
task_ended = Signal()

#: What changes tables needs the DATABASE_URL of the role that owns them.
_OF_THE_OWNER = ("migrate", "load_numbering_plan")


def command_line(command: str) -> str:
    """How to run `command`, a name with its arguments, in this installation: for messages."""
    manage = settings.MANAGE_COMMAND
    if settings.EMBEDDED or command not in _OF_THE_OWNER:
        return f"{manage} {command}"
    if manage.endswith("callerid"):
        return f"{manage} --owner {command}"
    return f"{manage} {command} as the owner of the database"


class JSONCommand(BaseCommand):
    json_help = "Print the result as one JSON object."
    requires_system_checks = []  # `check` and `doctor` report what they find

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help=self.json_help)

    def write_json(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False, default=str))

    def write_rows(
        self, options: dict[str, Any], rows: Iterable[Any], header: Sequence[str], cells: Sequence[Sequence[str]]
    ) -> None:
        """Print each of `rows` with --json, and otherwise a table whose columns are as wide as their longest cell."""
        if options["json"]:
            for row in rows:
                self.write_json(row)
            return
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        for line in (header, *cells):
            self.stdout.write("  ".join(map(str.ljust, line, widths)).rstrip())

    def write_result(self, options: dict[str, Any], result: Any, text: str) -> None:
        """Print `result` with --json, and otherwise `text`."""
        if options["json"]:
            self.write_json(result)
        else:
            self.stdout.write(text)
