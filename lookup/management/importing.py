"""What the import commands share: opening files, telling of rows that cannot be used, progress, and the summary."""

import json
import os
import signal
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TextIO

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.db.models import Model
from tqdm import tqdm

from accounts import history
from lookup.datasets.bulk import Progress
from lookup.datasets.files import TextFile
from lookup.datasets.formats import Format
from lookup.datasets.importers import Imported, OnReject, Watch
from lookup.datasets.reading import Rejected, Unreadable

BAD_ROWS = (
    "A row that cannot be used is left out and counted by its reason; the good rows are imported. The first 20 are "
    "listed on stderr as FILE:LINE: reason, all of them by --rejects FILE, with numbers masked. Fails, and changes "
    "nothing, when a file cannot be read or no row of it can be used. Broken off, PostgreSQL is as it was before; on "
    "SQLite, where rows are written 5,000 at a time, run the same command again for the rest: nothing counts twice."
)
SHOWN_REJECTS = 20
# Searches come first.
_NICENESS = 10

tqdm.monitor_interval = 0  # no thread to watch the bar


class ImportCommand(BaseCommand):
    """Imports files; says what became of their rows."""

    #: What is read, one of it, and what is stored, many.
    read_noun: str
    noun: str
    #: Of what is stored.
    model: type[Model]
    requires_system_checks = []
    formats: Mapping[str, Format[Any]]

    def add_arguments(self, parser: CommandParser) -> None:
        names = ", ".join(f"{name} ({format_.title})" for name, format_ in self.formats.items())
        parser.add_argument(
            "--format", choices=self.formats, help=f"What the file is, if it is not recognised: {names}."
        )
        parser.add_argument(
            "--encoding", type=encoding, help="Such as cp1252, for what is not UTF-8 and has no byte order mark."
        )
        parser.add_argument(
            "--rejects", metavar="FILE", help="List every row that cannot be used in FILE, which must not be there yet."
        )
        parser.add_argument("--dry-run", action="store_true", help="Read, check and count, change nothing.")
        parser.add_argument("--json", action="store_true", help="The counts as one JSON object on stdout.")

    @abstractmethod
    def import_files(self, options: dict[str, Any], on_reject: OnReject, watch: Watch) -> Imported:
        """Raises OSError and Unreadable."""

    def run_from_argv(self, argv: list[str]) -> None:
        os.nice(_NICENESS)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        with closing(_Progress(self)) as watch, _Listing(self, options["rejects"]) as listing:
            try:
                result = self.import_files(options, listing.add, watch)
            except OSError as error:
                raise CommandError(f"{error.filename or 'A file'}: {error.strerror or error}") from error
            except Unreadable as error:
                raise CommandError(f"{error}. Nothing was changed.") from error
            except DatabaseError as error:
                if not watch.begun:
                    raise  # manage.py says what may be missing
                # Its first line; those behind it may hold a row.
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise CommandError(f"The database gave up: {reason}. {self._broken_off(watch, options)}") from None
            except KeyboardInterrupt as error:
                raise CommandError(self._broken_off(watch, options)) from error
        if not options["dry_run"]:
            self._record(
                f"Imported ({self._titles(result)}): {result.added:,} added, {result.changed:,} changed, "
                f"{result.unchanged:,} unchanged, {result.removed:,} removed, {result.repeated:,} repeated, "
                f"{sum(result.rejected.values()):,} rejected."
            )
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(result), "dry_run": options["dry_run"]}, default=str))
        else:
            self.summarise(result, options)

    def _broken_off(self, watch: "_Progress", options: dict[str, Any]) -> str:
        """What to say of an import that was broken off; what it has written stands in the history too."""
        sentence = watch.broken_off()
        if watch.has_written and not options["dry_run"]:
            with suppress(DatabaseError):  # it may be the database that broke it off
                self._record(sentence)
        return sentence

    def _titles(self, result: Imported) -> str:
        return ", ".join(dict.fromkeys(self.formats[name].title for name in result.formats))

    def _record(self, message: str) -> None:
        """Without the file's name, which may be a person's or a number."""
        history.record_command(action=history.Action.IMPORT, kind=self.model, name="import", message=message)

    def summarise(self, result: Imported, options: dict[str, Any]) -> None:
        left_out = {"repeated": result.repeated, "rejected": sum(result.rejected.values())}
        became = {
            "added": result.added,
            "changed": result.changed,
            "unchanged": result.unchanged,
            "removed": result.removed,
        }
        shown = ", ".join(f"{n:,} {word}" for word, n in left_out.items() if n or word == "rejected")
        self.stdout.write(f"{_of(result.read, self.read_noun)} read ({self._titles(result)}): {shown}.")
        for reason, n in result.rejected.items():
            self.stdout.write(f"  {n:,} rejected: {reason}")
        shown = ", ".join(f"{n:,} {word}" for word, n in became.items() if n or word == "added")
        self.stdout.write(f"{self.noun[0].upper()}{self.noun[1:]}: {shown}.")
        if options["dry_run"]:
            self.stdout.write("Dry run: nothing was changed.")


def _of(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def encoding(name: str) -> str:
    """`name`. Raises ValueError for what is no encoding of text, for of LookupError argparse makes no sentence."""
    try:
        with suppress(UnicodeError):
            b"a".decode(name)
    except LookupError:
        raise ValueError from None
    return name


class _Listing:
    """The rows that cannot be used: the first ones on stderr, all of them in a file if there is to be one."""

    def __init__(self, command: BaseCommand, path: str | None) -> None:
        self._command = command
        self._path = path
        self._file: TextIO | None = None
        self._count = 0

    def __enter__(self) -> Self:
        if self._path:
            with self._faults():
                # For its owner alone: who is in an address book is nobody else's business. Never over another file,
                # which might be the one that is imported.
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                self._file = open(descriptor, "w", encoding="utf-8", buffering=1)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()  # every line was written when it came
        elif (more := self._count - SHOWN_REJECTS) > 0:
            self._command.stderr.write(f"… and {more:,} more: --rejects FILE lists them all.")

    def add(self, name: str, row: Rejected) -> None:
        parts = (row.number and f"{row.number}: ", row.reason, row.detail and f" ({row.detail})")
        line = f"{name}:{row.line}: {''.join(filter(None, parts))}"
        self._count += 1
        if self._file:
            with self._faults():
                self._file.write(line + "\n")
        elif self._count <= SHOWN_REJECTS:
            self._command.stderr.write(line, self._command.style.NOTICE)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CommandError(f"--rejects {self._path}: {error.strerror}. Nothing was changed.") from error


class _Progress(Watch):
    """A bar on stderr, on a terminal only."""

    def __init__(self, command: BaseCommand) -> None:
        self._command = command
        self._bar: tqdm | None = None
        self._file: TextFile | None = None
        self._rows_before = self._rows = 0
        self._merged = self._to_merge = 0
        self._finished = False

    def reading(self, file: TextFile) -> None:
        self._file = file
        self._rows_before = self._rows
        self._show(Path(file.name).name, file.size)

    def read(self, rows: int) -> None:
        self._rows = rows
        if self._bar is not None and self._file is not None:
            self._tell(rows - self._rows_before, self._file.position)

    def merging(self, rows: int) -> None:
        self._to_merge = rows
        self._show("merging", rows)

    def merged(self, rows: int) -> None:
        self._merged = rows
        self._tell(rows, rows)

    def finished(self) -> None:
        self._finished = True

    @property
    def begun(self) -> bool:
        return self._rows > 0

    @property
    def has_written(self) -> bool:
        """For good."""
        return self._finished or (connection.vendor != "postgresql" and self._merged > 0)

    def broken_off(self) -> str:
        if self._finished:
            return "Broken off when all was written: nothing is missing."
        if connection.vendor == "postgresql" or not self._merged:
            return "Broken off. Nothing was changed."
        return (
            f"Broken off after {self._merged:,} of {self._to_merge:,} rows, which are in. Run the same command again "
            "for the rest: nothing counts twice."
        )

    def _tell(self, rows: int, position: int) -> None:
        if self._bar is not None:
            elapsed = self._bar.format_dict["elapsed"] or 1
            self._bar.set_postfix_str(f"{rows:,} rows, {rows / elapsed:,.0f}/s", refresh=False)
            self._bar.update(position - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _show(self, what: str, total: int | None) -> None:
        self.close()
        self._bar = bar(self._command, what, total)


def bar(command: BaseCommand, what: str, total: int | None) -> tqdm:
    """Shown on a terminal only, and wiped when it is closed."""
    left = "{percentage:3.0f}%|{bar}|{postfix}, {remaining} left" if total else "{elapsed}{postfix}"
    terminal: Any = command.stderr
    return tqdm(
        desc=what,
        total=total,
        bar_format="{desc}: " + left,
        file=terminal._out,  # not Django's wrapper, which ends every piece with a new line
        disable=not terminal.isatty(),
        leave=False,
        dynamic_ncols=True,
    )


@contextmanager
def progress_line(command: BaseCommand, *, what: str = "rows", total: int | None = None) -> Iterator[Progress]:
    """A bar that hears how many are done."""
    with bar(command, what, total) as shown:

        def progress(done: int) -> None:
            shown.update(done - shown.n)

        yield progress
