import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError, CommandParser

from contrib.evaluation.services import Evaluation, Figures, Reply, Truth, name_hash
from core import loop, numbers
from core.commands import JSONCommand
from core.progress_bar import progress_bar
from lookup.search import SLOTS
from phonebook.imports.files import open_text
from phonebook.imports.readers.base import Rejected, UnreadableFile, rejected
from phonebook.imports.readers.csv_rows import CSVReader, Header

_SPAM = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
#: Of each line of a results file.
_START = b'{"source":"'


class Command(JSONCommand):
    help = (
        "Ask each source of SOURCE_A and SOURCE_B about numbers whose truth is known, and print what the spam verdicts "
        "of each source, and of a search, are worth. The calls are real, without cache and circuit breaker, and paused "
        "sources are called too: vendors may bill each. Lines that cannot be used are listed on stderr as FILE:LINE: "
        "reason, the others are used, and the command fails at the end; it also fails if a call failed. See "
        "docs/evaluating-sources.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        columns = "CSV with the columns number, spam (yes or no) and, optionally, name"
        parser.add_argument("file", metavar="FILE", help=f"{columns}; plain or gzip; - for standard input.")
        parser.add_argument("--encoding", help="Such as cp1252, for a file that is not UTF-8.")
        kept = "Keep each answer in this file as it arrives: a further run asks only what is missing or failed."
        parser.add_argument("--results", metavar="FILE.jsonl", help=kept)
        plan = "Print how many calls each source would get, and what they would cost at most; make none."
        parser.add_argument("--dry-run", action="store_true", help=plan)

    def handle(self, *args: Any, **options: Any) -> None:
        truths, unusable = self._truths(options)
        evaluation = self._evaluation(truths, options["results"])
        if options["dry_run"]:
            self._show_plan(evaluation, options)
        else:
            self._ask(evaluation, options["results"])
            self._show(evaluation, truths, options)
        if unusable or evaluation.failed:
            raise CommandError(f"Unusable lines: {unusable:,}. Failed calls: {evaluation.failed:,}.")

    def _truths(self, options: dict[str, Any]) -> tuple[dict[str, Truth], int]:
        """The truth about each number, and how many lines cannot be used."""
        truths: dict[str, Truth | None] = {}
        unusable = 0
        try:
            with open_text(options["file"], encoding=options["encoding"]) as file:
                for row in _TruthReader.read(file.lines, truths=truths):
                    unusable += 1
                    number = f"{row.number}: " if row.number else ""
                    self.stderr.write(f"{file.name}:{row.line}: {number}{row.reason}", self.style.NOTICE)
        except OSError as error:
            raise CommandError(f"{options['file']}: {error.strerror}.") from error
        except UnreadableFile as error:
            raise CommandError(f"{error}.") from error
        known = {number: truth for number, truth in truths.items() if truth}
        if not known:
            raise CommandError(f"{file.name}: no line can be used.")
        return known, unusable

    def _evaluation(self, truths: dict[str, Truth], results: str | None) -> Evaluation:
        try:
            return Evaluation(truths, _read(Path(results)) if results else {})
        except (OSError, ValueError) as error:
            raise CommandError(f"{results}: {getattr(error, 'strerror', None) or error}.") from error
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error

    def _ask(self, evaluation: Evaluation, results: str | None) -> None:
        total, made = sum(map(len, evaluation.due.values())), 0
        with ExitStack() as stack:
            file = stack.enter_context(_opened(results)) if results else None
            bar = stack.enter_context(progress_bar(total=total, unit=" calls"))
            stack.enter_context(_stopped_by_interrupt(evaluation))

            def keep(reply: Reply) -> None:
                nonlocal made
                made += 1
                bar.update()
                if file:
                    file.write(msgspec.json.encode(reply) + b"\n")

            loop.run(evaluation.ask(keep))
        if made < total:
            kept = "Run it again for the rest." if results else "Nothing is kept without --results."
            raise CommandError(f"Interrupted after {made:,} of {total:,} calls. {kept}")

    def _show_plan(self, evaluation: Evaluation, options: dict[str, Any]) -> None:
        plan = {name: (len(due), evaluation.price(name)) for name, due in evaluation.due.items()}
        rows = [
            {"source": name, "calls": calls, "cost": None if price is None else calls * price}
            for name, (calls, price) in plan.items()
        ]
        if options["json"]:
            self.write_json({"currency": settings.CURRENCY, "sources": rows})
            return
        cells = [[str(row["source"]), f"{row['calls']:,}", _cell(row["cost"])] for row in rows]
        self.write_rows(options, rows, ["SOURCE", "CALLS", f"COST AT MOST, {settings.CURRENCY}"], cells)

    def _show(self, evaluation: Evaluation, truths: dict[str, Truth], options: dict[str, Any]) -> None:
        sources = {name: evaluation.of_source(name) for name in evaluation.sources}
        slots = {slot: evaluation.of_slot(slot) for slot in SLOTS}
        spam = sum(truth.spam for truth in truths.values())
        if options["json"]:
            kinds = {"sources": sources, "slots": slots}
            shown = {kind: {name: asdict(each) for name, each in rows.items()} for kind, rows in kinds.items()}
            self.write_json({"numbers": len(truths), "spam": spam, "currency": settings.CURRENCY, **shown})
            return
        self.stdout.write(f"Numbers: {len(truths):,}. Spam: {spam:,}.")
        header = ["SOURCE OR SLOT", "CALLED", "KNOWN", "PRECISION", "RECALL", "AGREEMENT", "NAMES", "FAILURES"]
        header += [f"COST/NUMBER, {settings.CURRENCY}", "P50 MS", "P95 MS"]
        rows = [*sources.items(), *slots.items()]
        self.write_rows(options, rows, header, [[name, *_cells(each)] for name, each in rows])


def _cells(of: Figures) -> list[str]:
    shares = [_cell(share, ".1%") for share in (of.known, of.precision, of.recall, of.agreement, of.names)]
    durations = [_cell(ms, ",.1f") for ms in (of.p50_ms, of.p95_ms)]
    return [f"{of.called:,}", *shares, f"{of.failures:,}", _cell(of.cost), *durations]


def _cell(value: Any, format_spec: str = ",f") -> str:
    return "-" if value is None else format(value, format_spec)


def _read(results: Path) -> dict[str, Reply]:
    """The replies that the file has, by key. Lines that a killed process left incomplete are ignored. Raises OSError,
    and ValueError for a file of another kind."""
    replies = {}
    for line, text in enumerate(results.read_bytes().splitlines() if results.exists() else (), start=1):
        try:
            reply = msgspec.json.decode(text, type=Reply)
            replies[reply.key] = reply
        except msgspec.DecodeError:
            if text[: len(_START)] != _START[: len(text)]:
                raise ValueError(f"line {line} is no result of evaluate_sources") from None
    return replies


@contextmanager
def _opened(results: str) -> Iterator[BinaryIO]:
    """The file to add results to, readable by its owner only. Raises CommandError, also for errors while it is open."""
    try:
        with open(results, "ab", buffering=0, opener=partial(os.open, mode=0o600)) as file:
            file.write(b"\n")  # ends a line that a killed process left incomplete
            yield file
    except OSError as error:
        raise CommandError(f"{results}: {error.strerror}.") from error


@contextmanager
def _stopped_by_interrupt(evaluation: Evaluation) -> Iterator[None]:
    """Ctrl+C makes no further call, and waits for those in flight; the second one does not."""

    def stop(*_: object) -> None:
        evaluation.stopped = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _TruthReader(CSVReader):
    """Adds the truth about each number to `truths`: once, and None if its lines contradict one another. Yields the
    lines that cannot be used."""

    required = (("number",), ("spam",))
    optional = (("name",),)
    error = "the first line must name the columns number and spam"

    def __init__(self, header: Header, *, truths: dict[str, Truth | None]) -> None:
        super().__init__(header)
        self._truths = truths

    def parse(self, line: int, cells: list[str]) -> Iterator[Rejected]:
        text, spam, name = self.pick(cells)
        try:
            number = numbers.parse_typed(text)
        except numbers.InvalidNumber as error:
            yield rejected(line, f"invalid phone number ({error})")
            return
        if (is_spam := _SPAM.get(spam.strip().casefold())) is None:
            yield rejected(line, "spam must be yes or no, true or false, 1 or 0", int(number))
            return
        truth = Truth(is_spam, name_hash(name))
        first = self._truths.setdefault(number, truth)
        if first is None or first.spam != truth.spam or (first.name and truth.name and first.name != truth.name):
            self._truths[number] = None
            yield rejected(line, "contradicts an earlier line: the number does not count", int(number))
        elif not first.name:
            self._truths[number] = truth
