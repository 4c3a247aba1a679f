import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from core import loop, numbers
from core.commands import JSONCommand
from core.progress_bar import progress_bar
from lookup.answers import Failed
from lookup.management.commands.check_sources import shown
from lookup.search import SLOTS, SearchResult, bound_sources, search
from lookup.serializers import SearchData
from phonebook import rules


class Command(JSONCommand):
    help = (
        "Look up numbers in both slots: with rules, cache and deadline as in a search, but without a token, rate "
        "limit or charge. Vendors may bill the calls. A number may have a +, spaces, hyphens, dots and parentheses. "
        "Lines that are not numbers are listed on stderr as FILE:LINE: reason, the others are looked up, and the "
        "command fails at the end; it also fails for a number for which both slots failed."
    )
    json_help = "Print one JSON object per line: `data` as in the API."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="Country code and number.")
        parser.add_argument("--file", help="One number per line, # begins a comment; - for standard input.")

    def handle(self, *args: Any, **options: Any) -> None:
        given = list(self._given(options))
        if not given:
            raise CommandError("Nothing to look up: give numbers, or --file FILE.")
        try:
            for slot in SLOTS:
                bound_sources(slot)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        rejected = failed = 0
        for where, text in progress_bar(given):
            try:
                result = loop.run(search(numbers.parse_typed(text)))
            except numbers.InvalidNumber as error:
                rejected += 1
                self.stderr.write(f"{where}: invalid phone number ({error})", self.style.NOTICE)
                continue
            failed += result.failed
            self._show(result, options["json"])
        if rejected or failed:
            raise CommandError(f"Of {len(given)}: {rejected} invalid, {failed} failed in both slots.")

    def _given(self, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield where each number is given, and its text."""
        yield from ((f"argument {index}", text) for index, text in enumerate(options["numbers"], start=1))
        if not (name := options["file"]):
            return
        try:
            with nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8-sig") as file:
                for line, text in enumerate(file, start=1):
                    if text := text.removeprefix("\ufeff").partition("#")[0].strip():
                        yield f"{'<stdin>' if name == '-' else name}:{line}", text
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{name}: not UTF-8.") from error

    def _show(self, result: SearchResult, as_json: bool) -> None:
        data = SearchData(result).data
        if as_json:
            outcomes = {slot: outcome.status for slot, outcome in result.slots.items()}
            self.write_json({**data, "outcomes": outcomes, "rule": result.rule and rules.shown(result.rule)})
            return
        self.stdout.write(f"{result.number}  (rule for {rules.shown(result.rule)})" if result.rule else result.number)
        for slot, outcome in result.slots.items():
            said = outcome.answer.reason if isinstance(outcome.answer, Failed) else shown(data[slot])
            self.stdout.write(f"  {slot}  {outcome.status:<9}  {outcome.elapsed_s * 1000:8.1f} ms  {said}".rstrip())
