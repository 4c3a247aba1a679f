"""Ask the slots from the shell, without charging anyone."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from lookup import numbers
from lookup.answers import Failed
from lookup.management.commands.check_sources import shown
from lookup.management.importing import progress_line
from lookup.search import SLOTS, SearchResult, members, search
from lookup.serializers import SearchData


class Command(BaseCommand):
    help = (
        "What both slots say about numbers: rules, chains, cache and deadline as in a search, but no token, no limit "
        "and no credit. A vendor that is asked may bill it. A number may have a +, spaces, hyphens, dots and "
        "parentheses. A line that is none is listed on stderr as FILE:LINE: reason, the others are looked up, and the "
        "command fails in the end; so it does when neither slot could tell."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="Country code and number.")
        parser.add_argument("--file", help="One number a line, # begins a comment; - for standard input.")
        parser.add_argument("--json", action="store_true", help="One JSON object a line: `data` as the API has it.")

    def handle(self, *args: Any, **options: Any) -> None:
        given = list(self._given(options))
        if not given:
            raise CommandError("Nothing to look up: give numbers, or --file FILE.")
        try:
            for slot in SLOTS:
                members(slot)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        rejected = failed = 0
        with progress_line(self, total=len(given)) as progress:
            for done, (where, text) in enumerate(given):
                progress(done)
                try:
                    result = search(numbers.read(text))
                except numbers.InvalidNumber as error:
                    rejected += 1
                    self.stderr.write(f"{where}: invalid phone number ({error})", self.style.NOTICE)
                    continue
                failed += result.failed
                self._show(result, options["json"])
        if rejected or failed:
            raise CommandError(f"Of {len(given)}: {rejected} no phone number, {failed} that neither slot could tell.")

    def _given(self, options: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Where each stands, and the text."""
        yield from ((f"argument {index}", text) for index, text in enumerate(options["numbers"], start=1))
        if not (name := options["file"]):
            return
        try:
            with nullcontext(sys.stdin) if name == "-" else Path(name).open(encoding="utf-8-sig") as file:
                for line, text in enumerate(file, start=1):
                    if text := text.partition("#")[0].strip():
                        yield f"{'<stdin>' if name == '-' else name}:{line}", text
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{name}: not UTF-8.") from error

    def _show(self, result: SearchResult, as_json: bool) -> None:
        data = SearchData().to_representation(result)
        if as_json:
            outcomes = {slot: outcome.word for slot, outcome in result.slots.items()}
            self.stdout.write(json.dumps({**data, "outcomes": outcomes}, ensure_ascii=False))
            return
        self.stdout.write(result.number)
        for slot, outcome in result.slots.items():
            said = outcome.answer.reason if isinstance(outcome.answer, Failed) else shown(data[slot])
            self.stdout.write(f"  {slot}  {outcome.word:<9}  {outcome.elapsed_s * 1000:8.1f} ms  {said}".rstrip())
