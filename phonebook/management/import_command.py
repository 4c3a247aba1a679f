"""Base class of the import commands: options, rejected rows, progress, and the summary."""

import os
import signal
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Self, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.db.models import Model

from core import history
from core.commands import JSONCommand
from core.database_errors import describe
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import Import, ImportResult, TransferResult, counts_text
from phonebook.imports.readers.base import Rejected, UnreadableFile
from phonebook.imports.staging import Counts

REJECTED_ROWS = (
    "Rows that cannot be used are rejected, counted by reason, and listed on stderr as FILE:LINE: reason; the valid "
    "rows are imported. A file that cannot be read, or has no valid row, changes nothing. See docs/importing.md."
)
SHOWN_REJECTS = 20
# Searches have priority.
_NICENESS = 10


class BackgroundCommand(JSONCommand):
    """Runs with a lower priority than the service. SIGTERM interrupts it like Ctrl-C."""

    def run_from_argv(self, argv: list[str]) -> None:
        os.nice(_NICENESS)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        super().run_from_argv(argv)

    def report_each(
        self,
        results: Iterable[tuple[str, TransferResult]],
        options: dict[str, Any],
        *,
        model: type[Model],
        unit: str,
        done: str,
    ) -> tuple[int, int]:
        """Report each result, and record what changed in the History. Returns how many there were, and how many failed.
        `unit`: of what was transferred."""
        reported: dict[str, TransferResult] = {}
        try:
            for name, result in results:
                reported[name] = result
                for error in result.errors:
                    self.stderr.write(f"{name}: {error}.")
                has_new = result.transferred or result.removed
                if (result.added or result.changed or result.removed) and not options.get("dry_run"):
                    message = f"{done} ({name}): {counts_text(result, all_of_them=True)}."
                    history.record(action=history.Action.IMPORT, model=model, name="import", message=message)
                if options["json"]:
                    continue
                if has_new or result.rejected:
                    units = f"{result.transferred:,} {unit}{'s' * (result.transferred != 1)}"
                    rejected = f"{sum(result.rejected.values()):,} rejected"
                    self.stdout.write(f"{name}: {units}, {result.read:,} rows read, {rejected}. {counts_text(result)}.")
                    self.write_reasons(result)
                elif not result.errors:
                    self.stdout.write(f"{name}: nothing new.")
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted. Run it again for the rest: nothing counts twice.") from error
        if options["json"]:
            self.write_json({name: asdict(result) for name, result in reported.items()})
        return len(reported), sum(bool(result.errors) for result in reported.values())

    def write_reasons(self, result: Counts) -> None:
        for reason, count in Counter(result.rejected).most_common():
            self.stdout.write(f"  {count:,} rejected: {reason}")


class ImportCommand(BackgroundCommand):
    """Imports files and reports what happened to their rows."""

    importer: type[Import]
    #: What is stored, plural.
    noun: str

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="+", help="Plain or gzip; - for standard input.")
        super().add_arguments(parser)
        formats = self.importer.formats
        titles = ", ".join(f"{each.name} ({each.title})" for each in formats)
        names = [each.name for each in formats]
        parser.add_argument("--format", choices=names, help=f"File format; by default recognized: {titles}.")
        parser.add_argument("--encoding", help="Such as cp1252, for files in neither UTF-8 nor with a byte order mark.")
        parser.add_argument("--rejects", metavar="FILE", help="List all rejected rows in FILE, which must not exist.")
        parser.add_argument("--dry-run", action="store_true", help="Read, check and count, without changing anything.")

    @abstractmethod
    def importer_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Those of `importer` that not all imports have."""

    def handle(self, *args: Any, **options: Any) -> None:
        with RejectList(self, options["rejects"]) as rejects:
            importer = self.importer(
                on_reject=rejects.add,
                format_name=options["format"],
                dry_run=options["dry_run"],
                **self.importer_options(options),
            )
            try:
                result = importer.run(open_text(path, encoding=options["encoding"]) for path in options["files"])
            except OSError as error:
                raise CommandError(f"{error.filename or 'A file'}: {error.strerror or error}") from error
            except UnreadableFile as error:
                raise CommandError(f"{error}. Nothing was changed.") from error
            except DatabaseError as error:
                if not importer.result.formats:
                    raise  # manage.py says what may be missing
                raise CommandError(f"{describe(error)}. {self._interrupted(importer.tables.committed)}") from None
            except KeyboardInterrupt as error:
                raise CommandError(self._interrupted(importer.tables.committed)) from error
        titles = ", ".join(dict.fromkeys(importer.known[name].title for name in result.formats))
        if not options["dry_run"]:
            self._record(f"Imported ({titles}): {counts_text(result, all_of_them=True)}.")
        if options["json"]:
            self.write_json({**asdict(result), "dry_run": options["dry_run"]})
        else:
            self.summarize(result, titles, options)

    def _interrupted(self, committed: int) -> str:
        """The message for an interrupted import; rows that it committed are recorded in the history too."""
        if not committed:
            return "Interrupted. Nothing was changed."
        message = (
            f"Interrupted after {committed:,} rows were written. Run the same command again for the rest: "
            "nothing counts twice."
        )
        with suppress(DatabaseError):  # the database may have caused the interruption
            self._record(message)
        return message

    def _record(self, message: str) -> None:
        """Record the import without the file's name, which may contain a person's name or a number."""
        history.record(action=history.Action.IMPORT, model=self.importer.table.model, name="import", message=message)

    def summarize(self, result: ImportResult, titles: str, options: dict[str, Any]) -> None:
        skipped = f"{result.repeated:,} repeated, " if result.repeated else ""
        skipped += f"{sum(result.rejected.values()):,} rejected"
        self.stdout.write(f"{result.read:,} rows read ({titles}): {skipped}.")
        self.write_reasons(result)
        self.stdout.write(f"{self.noun.capitalize()}: {counts_text(result)}.")
        if options["dry_run"]:
            self.stdout.write("Dry run: nothing was changed.")


class RejectList:
    """Lists rejected rows: the first ones on stderr, or all of them in a file. Use it in a `with` block. Raises
    CommandError for a file that cannot be written."""

    def __init__(self, command: BaseCommand, path: str | None) -> None:
        self._command, self._path = command, path
        self._file: TextIO | None = None
        self._count = 0

    def __enter__(self) -> Self:
        if self._path:
            with self._command_errors():
                # Readable by its owner only: address books are private. Never overwrites a file, which might be the one
                # that is imported.
                private = partial(os.open, mode=0o600)
                self._file = open(self._path, "x", encoding="utf-8", buffering=1, opener=private)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()  # line-buffered: nothing is left to write
        elif (more := self._count - SHOWN_REJECTS) > 0:
            self._command.stderr.write(f"… and {more:,} more: --rejects FILE lists them all.")

    def add(self, name: str, row: Rejected) -> None:
        """A row without a line is about all of `name`. Only the file names the contact: standard error may be a log."""
        contact = row.contact if self._file else ""
        detail = row.detail and f" ({row.detail})"
        parts = (contact and f"{contact}: ", row.number and f"{row.number}: ", row.reason, detail)
        place = f"{name}:{row.line}" if row.line else name
        line = f"{place}: {''.join(filter(None, parts))}"
        self._count += 1
        if self._file:
            with self._command_errors():
                self._file.write(line + "\n")
        elif self._count <= SHOWN_REJECTS:
            self._command.stderr.write(line, self._command.style.NOTICE)

    @contextmanager
    def _command_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CommandError(f"--rejects {self._path}: {error.strerror}. Nothing was changed.") from error
