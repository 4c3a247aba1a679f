from dataclasses import asdict
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from core import numbers
from core.commands import JSONCommand
from lookup import source_actions
from lookup.connectors import registry
from lookup.search import SLOTS, bound_sources
from lookup.source_actions import NUMBER
from lookup.vendors import preset, preset_samples


class Command(JSONCommand):
    help = (
        "Look up one number in every source of SOURCE_A and SOURCE_B, and print each answer, how long it took and what "
        "to fix. The calls are real, without cache and circuit breaker, and paused sources are called too: a vendor "
        "may bill them. With --samples nothing is sent: every preset, shipped and yours, is validated and tested with "
        "its own samples, which must reach each of its rules. Fails if anything failed."
    )
    json_help = "Print one JSON object per line."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--number", default=NUMBER, help=f"Country code and number; default {NUMBER}.")
        parser.add_argument("--samples", action="store_true", help="Run every preset's samples, offline.")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["samples"]:
            rows = self._samples()
            cells = [[row["preset"], str(row["samples"]), row["problem"] or f"ok{row['note']}"] for row in rows]
            header = ["PRESET", "SAMPLES", "RESULT"]
        else:
            rows = self._live(options["number"])
            cells = list(map(_cells, rows))
            header = ["SLOT", "SOURCE", "OUTCOME", "MS", "ANSWER, OR WHAT TO FIX"]
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

    def _samples(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, file in registry.presets().items():
            results, wrong, note = [], [], ""
            if name in registry.BUILT_IN:
                wrong.append(f"{name} is a built-in source: give {file} another name")
            try:
                loaded = preset.load(file)
                results = preset_samples.run(loaded)
                wrong += [f"'{r.sample.title}' {problem}" for r in results for problem in r.problems]
                if unreached := preset_samples.unreached_rules(loaded, results):
                    wrong.append(unreached)
                alone = [str(number) for number, rule in enumerate(loaded.rules, start=1) if rule.status_alone]
                note = f" (whatever the body: outcome {', '.join(alone)})" if alone else ""
            except ImproperlyConfigured as error:
                wrong.append(str(error))
            row = {"preset": name, "samples": len(results), "ok": not wrong, "problem": "; ".join(wrong), "note": note}
            rows.append(row)
        return rows


def _cells(row: dict[str, Any]) -> list[str]:
    elapsed = "" if row["ms"] is None else f"{row['ms']:.1f}"
    result = "; ".join(filter(None, [shown(row["answer"]), row["fix"]]))
    return [row["slot"], row["source"], row["outcome"], elapsed, result]


def shown(known: dict[str, Any]) -> str:
    """The fields of an answer, as `name=Example Bakery, spam=yes`."""
    words = {True: "yes", False: "no"}
    return ", ".join(f"{field}={words.get(value, value)}" for field, value in known.items())
