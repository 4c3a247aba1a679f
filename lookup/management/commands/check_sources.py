from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from core import numbers
from core.commands import JSONCommand
from lookup import source_actions
from lookup.search import SLOTS, bound_sources
from lookup.source_actions import NUMBER


class Command(JSONCommand):
    help = (
        "Look up one number in every source of SOURCE_A and SOURCE_B, and print each answer, how long it took and what "
        "to fix. The calls are real, without cache and circuit breaker, and paused sources are called too: a vendor "
        "may bill them. Fails if anything failed."
    )
    json_help = "Print one JSON object per line."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--number", default=NUMBER, help=f"Country code and number; default {NUMBER}.")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = self._live(options["number"])
        header = ["SLOT", "SOURCE", "OUTCOME", "MS", "ANSWER, OR WHAT TO FIX"]
        cells = list(map(_cells, rows))
        self.write_rows(options, rows, header, cells)
        if failed := sum(not row["ok"] for row in rows):
            raise CommandError(f"{failed} of {len(rows)} failed.")

    def _live(self, number: str) -> list[dict[str, Any]]:
        try:
            number = numbers.parse_typed(number)
            bound = [(slot, source) for slot in SLOTS for source in bound_sources(slot)]
        except numbers.InvalidNumber as error:
            raise CommandError(f"--number: invalid phone number ({error}).") from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        rows: dict[str, dict[str, Any]] = {}
        for _, source in bound:  # a source of both slots is called, and billed, once
            if source.name not in rows:
                rows[source.name] = asdict(source_actions.call(source, number))
        return [{"slot": slot, **rows[source.name]} for slot, source in bound]


def _cells(row: dict[str, Any]) -> list[str]:
    elapsed = "" if row["ms"] is None else f"{row['ms']:.1f}"
    result = "; ".join(filter(None, [shown(row["answer"]), row["fix"]]))
    return [row["slot"], row["source"], row["outcome"], elapsed, result]


def shown(known: dict[str, Any]) -> str:
    """The fields of an answer, as `name=Example Bakery, spam=yes`."""
    words = {True: "yes", False: "no"}
    return ", ".join(f"{field}={words.get(value, value)}" for field, value in known.items())
