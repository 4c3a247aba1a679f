"""Ask every bound source, live; or run every preset's samples, offline."""

import json
import time
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from lookup import numbers
from lookup.answers import Failed, Found
from lookup.connectors import preset, registry, samples
from lookup.connectors.base import asked, covers
from lookup.connectors.chain import Member
from lookup.management.tables import table
from lookup.search import SLOTS, members

# Kept free for fiction by the North American Numbering Plan: a key that works is told from one that does not, whatever
# is known about it.
NUMBER = "12025550123"


class Command(BaseCommand):
    help = (
        "Ask every source that SOURCE_A and SOURCE_B bind about one number, and print what each said, how long it took "
        "and what to fix. The calls are real ones, past cache and breaker: a vendor may bill them. With --samples "
        "nothing is sent: every preset, shipped and yours, reads its own samples, and one of them must reach each of "
        "its rules. Fails when anything failed."
    )
    requires_system_checks = []  # what it finds is what this command tells

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--number", default=NUMBER, help=f"Country code and number; {NUMBER} if left out.")
        parser.add_argument("--samples", action="store_true", help="Run every preset's samples, offline.")
        parser.add_argument("--json", action="store_true", help="One JSON object a line.")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = self._samples() if options["samples"] else self._live(options["number"])
        if options["json"]:
            for row in rows:
                self.stdout.write(json.dumps(row, ensure_ascii=False))
        elif options["samples"]:
            cells = [[row["preset"], str(row["samples"]), "ok" if row["ok"] else row["problem"]] for row in rows]
            self.stdout.write(table(["PRESET", "SAMPLES", "RESULT"], cells))
        else:
            self.stdout.write(table(["SLOT", "SOURCE", "OUTCOME", "MS", "ANSWER, OR WHAT TO FIX"], _cells(rows)))
        if failed := sum(not row["ok"] for row in rows):
            raise CommandError(f"{failed} of {len(rows)} failed.")

    def _live(self, number: str) -> list[dict[str, Any]]:
        try:
            number = numbers.read(number)
            bound = [(slot, member) for slot in SLOTS for member in members(slot)]
        except numbers.InvalidNumber as error:
            raise CommandError(f"--number: invalid phone number ({error}).") from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        rows: dict[str, dict[str, Any]] = {}
        for _, member in bound:  # one that is bound to both slots is asked, and paid, once
            if member.name not in rows:
                rows[member.name] = _ask(member, number)
        return [{"slot": slot, **rows[member.name]} for slot, member in bound]

    def _samples(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, file in registry.presets().items():
            try:
                loaded = preset.load(file)
                results = samples.run(loaded)
                wrong = [f"'{r.sample.title}' {problem}" for r in results for problem in r.problems]
                if unreached := samples.unreached_rules(loaded, results):
                    wrong.append(unreached)
            except (preset.Invalid, ImproperlyConfigured) as error:
                results, wrong = [], [str(error)]
            rows.append({"preset": name, "samples": len(results), "ok": not wrong, "problem": "; ".join(wrong)})
        return rows


def _ask(member: Member, number: str) -> dict[str, Any]:
    row: dict[str, Any] = {"source": member.name, "ok": True, "ms": None, "answer": {}, "fix": ""}
    if not covers(member.name, member.connector, number):
        return {**row, "outcome": "not covered", "fix": "it is not asked about this number; try --number"}
    started = time.monotonic()
    answer = asked(member.name, lambda: member.connector.lookup(number, timeout_s=settings.CALL_LIFETIME_S))
    elapsed_s = time.monotonic() - started
    row["ms"] = round(elapsed_s * 1000, 1)
    if isinstance(answer, Failed):
        return {**row, "outcome": answer.reason, "ok": False, "fix": answer.hint}
    if elapsed_s > (patience_s := min(settings.SEARCH_DEADLINE_S, member.connector.patience_s or 60.0)):
        row |= {"ok": False, "fix": f"too slow: a search waits {patience_s:g} s"}
    if isinstance(answer, Found):
        return {**row, "outcome": "found", "answer": answer.known()}
    if answer.reason == "invalid_number":
        row["fix"] = row["fix"] or "it says that this is no phone number; try --number"
    return {**row, "outcome": answer.reason.replace("_", " ")}


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            row["slot"],
            row["source"],
            row["outcome"],
            "" if row["ms"] is None else f"{row['ms']:.1f}",
            "; ".join(filter(None, [shown(row["answer"]), row["fix"]])),
        ]
        for row in rows
    ]


def shown(known: dict[str, Any]) -> str:
    """The fields of an answer, as `name=Example Bakery, spam=yes`."""
    words = {True: "yes", False: "no"}
    return ", ".join(f"{field}={words.get(value, value)}" for field, value in known.items())
