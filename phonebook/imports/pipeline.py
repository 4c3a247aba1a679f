"""The steps of an import of files: read them, stage their rows, merge these. The result of an import."""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from django.db import Error, transaction

from core.db import run
from core.hooks import Hook
from core.progress_bar import progress_bar
from phonebook.imports import Format, batches
from phonebook.imports.files import TextFile
from phonebook.imports.formats import recognize
from phonebook.imports.readers import base
from phonebook.imports.readers.base import ListVersion, Rejected, UnreadableFile
from phonebook.imports.staging import Counts, StagingTables, Tables, TargetTable
from phonebook.models import ImportBatch
from phonebook.suppression import SuppressedNumbers

#: Losses are checked from this many numbers on.
MIN_NUMBERS_FOR_LOSS = 20
SUPPRESSED = "blocked: its data was erased on request"
# A row's position in the files of one command: the file's index in the higher bits, the line in these.
LINE_BITS = 40

#: Called for every rejected or repeated row, with the file's name.
OnReject = Callable[[str, Rejected], None]
#: Called with the staging tables when `merged` has been compared with the target table, and nothing is written yet.
OnCompared = Callable[[StagingTables, TargetTable], None]


def is_loss(removed: int, before: int) -> bool:
    """Whether more than half of the numbers disappear."""
    return before >= MIN_NUMBERS_FOR_LOSS and removed > before / 2


@dataclass(frozen=True, slots=True)
class ReplacedDay:
    """One source's complaints of one day: the complaints `before` and `after` the import; the `numbers` before, and
    how many of them were `removed`; in how many of the command's `files` the day is."""

    source: str
    day: date
    before: int
    after: int
    numbers: int
    removed: int
    files: int

    @property
    def is_loss(self) -> bool:
        return is_loss(self.removed, self.numbers)


@dataclass(slots=True)
class ImportResult(Counts):
    """What an import did."""

    formats: list[str] = field(default_factory=list)
    days: list[ReplacedDay] = field(default_factory=list)
    #: The version of the block list that is loaded now.
    version: int | None = None


@dataclass(slots=True)
class TransferResult(Counts):
    """What was done about one source of complaints or address book. `transferred`: files or cards. `errors`: sentences
    about what failed."""

    transferred: int = 0
    errors: list[str] = field(default_factory=list)


def counts_text(result: Counts, *, all_of_them: bool = False) -> str:
    """Counts of the rows by result; unless `all_of_them`, without zeros and skipped rows."""
    counts = {word: getattr(result, word) for word in ("added", "changed", "unchanged", "removed")}
    if all_of_them:
        counts |= {"repeated": result.repeated, "rejected": sum(result.rejected.values())}
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count or all_of_them or word == "added")


class Import(ABC):
    """One import of files into `table`, which is recorded as an ImportBatch.

    `format_name`: of one of `formats`; None: recognized for each file. With `dry_run`, only count, and record nothing.
    `batch`: what to record the import as, if it is not a new one. `progress_bar`: in place of tqdm's.
    """

    kind: ImportBatch.Kind
    table: TargetTable
    formats: Hook[Format]
    #: Of the table `staged`: name → SQL type. The first two are `position` and `number`.
    columns: Mapping[str, str]
    #: SQL: the columns by which a row repeats an earlier one, and the condition of the rows that can.
    identity: str
    can_repeat = "1 = 1"

    def __init__(
        self,
        *,
        on_reject: OnReject,
        on_compared: OnCompared | None = None,
        format_name: str | None = None,
        dry_run: bool = False,
        batch: ImportBatch | None = None,
        progress_bar: Any = progress_bar,
    ) -> None:
        self.result = ImportResult()
        #: By name.
        self.known = {each.name: each for each in self.formats}
        self.tables = Tables()
        self.tables.progress_bar = progress_bar
        self.format_name, self.dry_run = format_name, dry_run
        self.batch = batch
        #: Rows that were rejected although their number is valid.
        self.rejected_with_number = 0
        self._on_reject, self._on_compared = on_reject, on_compared
        self._file_names: list[str] = []

    @abstractmethod
    def reader_options(self, format_: Format) -> dict[str, Any]:
        """The options of the format's reader."""

    @abstractmethod
    def derive_merged(self, valid: int) -> None:
        """Derive `merged` from the table `staged`, which had so many `valid` rows with the repeated ones. Raises
        UnreadableFile."""

    def recorded_options(self) -> dict[str, Any]:
        """What the batch shows about how the files were read."""
        return {"format": self.format_name}

    def record(self, valid: int) -> batches.Recorded:
        """Called in the lock, after everything is merged. Returns the data sets that it recorded."""
        return {}

    def run(self, files: Iterable[AbstractContextManager[TextFile]]) -> ImportResult:
        """Raises UnreadableFile, with nothing changed, if a file cannot be read, or all rows are rejected, and
        batches.Stopped."""
        if self.dry_run:
            return self._run(files)
        if self.batch is None:
            options = {name: value for name, value in self.recorded_options().items() if value}
            self.batch = batches.start(self.kind, options=options)
        try:
            return self._run(files)
        except BaseException as error:
            with suppress(Error):  # the database may be the reason
                batches.fail(self.batch, error, committed=self.tables.committed)
            raise

    def _run(self, files: Iterable[AbstractContextManager[TextFile]]) -> ImportResult:
        result = self.result
        with self.tables:
            staged = self.tables.fill("staged", self.columns, self._read(files))
            # `forget` waits for the lock, or its suppressed numbers are dropped here. A dry run writes nothing.
            with nullcontext() if self.dry_run else self.tables.lock(self.table):
                valid = staged - self._drop_suppressed()
                result.read = valid + sum(result.rejected.values()) + result.repeated  # those of readers, until now
                if result.read and not valid:
                    raise UnreadableFile(f"{', '.join(self._file_names)}: no valid row")
                self._drop_repeated()
                self.derive_merged(valid)
                self.tables.compare(self.table, result)
                if self._on_compared is not None:
                    self._on_compared(self.tables, self.table)
                if self.batch is not None:
                    batches.begin_merge(self.batch, self.table, result)
                    self.tables.merge(self.table, result, self.batch)
                    with transaction.atomic():  # an undo must know every data set that is recorded
                        self.batch.data_sets = self.record(valid)
                        batches.finish(self.batch, result)
        if not self.dry_run:
            self.tables.committed = result.added + result.changed + result.removed
        return result

    def _format(self, file: TextFile) -> Format:
        """Raises UnreadableFile."""
        if not self.format_name:
            return recognize(self.formats, file.begin)
        if self.format_name not in self.known:  # an upload's, made before its add-on was left out
            raise UnreadableFile(f"no add-on in ADDONS reads the format {self.format_name}")
        return self.known[self.format_name]

    def _read(self, files: Iterable[AbstractContextManager[TextFile]]) -> Iterator[tuple[Any, ...]]:
        """The valid rows of the files, with their position instead of their line."""
        names: dict[int, str] = {}
        for index, opened in enumerate(files):
            with opened as file:
                self._file_names.append(file.name)
                if index == 0 and self.batch and not self.batch.file_name:
                    self.batch.file_name = Path(file.name).name[:255]  # saved in the lock
                format_ = self._format(file)
                self.result.formats.append(format_.name)
                empty, first_position = True, index << LINE_BITS
                items = format_.reader.read(file.lines, **self.reader_options(format_))
                for item in self.tables.progress_bar(items, desc=Path(file.name).name, unit=" rows"):
                    if isinstance(item, tuple):
                        empty = False
                        yield (first_position + item[0], *item[1:]) if index else item
                    elif isinstance(item, ListVersion):
                        self.result.version = item
                    else:
                        self._reject(file.name, item)
                if first := names.get(file.digest):
                    raise UnreadableFile(f"the file has the same content as {first}")
                if not empty:
                    names[file.digest] = file.name

    def _drop_suppressed(self) -> int:
        """Delete and reject the staged rows of suppressed numbers. Returns how many."""
        suppressed = SuppressedNumbers()
        if not suppressed:
            return 0
        rows = self.tables.stream("SELECT position, number FROM staged ORDER BY position")
        dropped = [(position, number) for position, number in rows if number in suppressed]
        for position, number in dropped:
            name, line = self._locate(position)
            self._reject(name, base.rejected(line, SUPPRESSED, number))
        for number in {number for _, number in dropped}:
            run("DELETE FROM staged WHERE number = %s", [number])
        return len(dropped)

    def _drop_repeated(self) -> None:
        """Delete, count and report the staged rows that repeat an earlier one."""
        repeated = (
            "SELECT position, number, first FROM ("
            f"SELECT position, number, first_value(position) OVER (PARTITION BY {self.identity} ORDER BY position) "
            f"AS first FROM staged WHERE {self.can_repeat}) rows_with_first WHERE position <> first"
        )
        for position, number, first in self.tables.stream(f"{repeated} ORDER BY position"):
            self.result.repeated += 1
            (name, line), (first_name, first_line) = self._locate(position), self._locate(first)
            earlier = f"line {first_line}" if name == first_name else f"{first_name}:{first_line}"
            self._report(name, base.rejected(line, base.REPEATED, number, earlier))
        if self.result.repeated:
            run(f"DELETE FROM staged WHERE (position, number) IN (SELECT position, number FROM ({repeated}) repeated)")

    def _reject(self, name: str, rejected: Rejected) -> None:
        if rejected.reason in (base.REPEATED, base.REPEATED_IN_CONTACT):
            self.result.repeated += 1
        else:
            self.result.rejected[rejected.reason] = self.result.rejected.get(rejected.reason, 0) + 1
            self.rejected_with_number += rejected.number is not None and rejected.reason != SUPPRESSED
        if rejected.reason != base.REPEATED_IN_CONTACT:
            self._report(name, rejected)

    def _report(self, name: str, row: Rejected) -> None:
        if self.batch:
            batches.add_fault(self.batch.faults, name, row)
        self._on_reject(name, row)

    def _locate(self, position: int) -> tuple[str, int]:
        return self._file_names[position >> LINE_BITS], position & ((1 << LINE_BITS) - 1)
