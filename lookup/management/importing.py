"""What the import commands share: opening the file, telling of bad lines, progress, and the summary."""

import json
import shutil
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lookup.datasets.bulk import Progress
from lookup.datasets.importers import Imported, OnReject
from lookup.datasets.plain_csv import Rejected, Unreadable

BAD_LINES = (
    "A line that cannot be used is listed on stderr as FILE:LINE: reason, with its number masked, and left out; the "
    "good lines are imported. Fails, and changes nothing, when the file cannot be read (missing, not UTF-8, another "
    "header) or has no good line."
)


class ImportCommand(BaseCommand):
    """Imports one file; says what became of its lines."""

    #: What a line holds, in the plural.
    noun: str

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE.csv", help="UTF-8, with a header; - for standard input.")
        parser.add_argument("--dry-run", action="store_true", help="Check and count, change nothing.")
        parser.add_argument("--json", action="store_true", help="The counts as one JSON object on stdout.")

    @abstractmethod
    def import_file(
        self, file: IO[bytes], on_reject: OnReject, progress: Progress, options: dict[str, Any]
    ) -> Imported:
        """Import from `file`. Raises Unreadable."""

    def handle(self, *args: Any, **options: Any) -> None:
        name = "<stdin>" if options["file"] == "-" else options["file"]

        def on_reject(line: Rejected) -> None:
            number = f"{line.number}: " if line.number else ""
            self.stderr.write(f"{name}:{line.line}: {number}{line.reason}", self.style.NOTICE)

        try:
            with _open(options["file"]) as file, progress_line(self) as progress:
                result = self.import_file(file, on_reject, progress, options)
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or error}") from error
        except Unreadable as error:
            raise CommandError(f"{name}: {error}. Nothing was changed.") from error
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(result), "dry_run": options["dry_run"]}))
            return
        self.stdout.write(
            f"{result.read:,} {self.noun} read: {result.added:,} added, {result.changed:,} changed, "
            f"{result.unchanged:,} unchanged, {result.rejected:,} rejected."
            + (" Dry run: nothing was changed." if options["dry_run"] else "")
        )


@contextmanager
def progress_line(command: BaseCommand, *, total: int | None = None) -> Iterator[Progress]:
    """A line on stderr that counts rows, wiped at the end. Only on a terminal."""
    on_terminal = command.stderr.isatty()

    def show(done: int) -> None:
        if on_terminal:
            command.stderr.write(f"\r{done:,} rows" if total is None else f"\r{done:,} of {total:,}", ending="")
            command.stderr.flush()

    try:
        yield show
    finally:
        if on_terminal:
            command.stderr.write("\r\x1b[K", ending="")


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    """The file, or a copy of what is piped in: it is read twice, to find a bad byte before a row is written."""
    with nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
        if file.seekable():
            yield file
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy
