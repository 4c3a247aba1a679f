"""Reads the files of an import: decides which rows are staged and which are rejected. The result of an import."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from core.db import run
from phonebook import cache_versions
from phonebook.imports import formats
from phonebook.imports.files import TextFile
from phonebook.imports.formats import Format
from phonebook.imports.progress import ImportProgress
from phonebook.imports.readers import base
from phonebook.imports.readers.base import ListVersion, Rejected, UnreadableFile, with_file_name
from phonebook.imports.staging import Counts, StagingTables

#: Losses are checked from this many numbers on.
MIN_NUMBERS_FOR_LOSS = 20
SUPPRESSED = "suppressed (forget --block)"
# A row's position in the files of one command: the file's index in the higher bits, the line in these.
LINE_BITS = 40

#: Called for every rejected or repeated row, with the file's name.
OnReject = Callable[[str, Rejected], None]


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


class FileReader:
    """Passes the valid rows of an import's files on to staging; counts in `result`, and reports, the others."""

    def __init__(self, on_reject: OnReject, observer: ImportProgress) -> None:
        self.result = ImportResult()
        self.observer = observer
        self._file_names: list[str] = []
        #: Rows that were rejected although their number is valid.
        self.rejected_with_number = 0
        self._on_reject = on_reject

    def rows(
        self,
        files: Iterable[AbstractContextManager[TextFile]],
        known: Mapping[str, Format],
        format_name: str | None,
        options: Callable[[Format], dict[str, Any]],
    ) -> Iterator[tuple[Any, ...]]:
        """The valid rows, with their position instead of their line.

        `format_name`: one of the `known` formats; None: recognized for each file. `options`: of a format's reader.
        Raises UnreadableFile.
        """
        names: dict[bytes, str] = {}
        for index, opened in enumerate(files):
            with opened as file, with_file_name(file.name):
                self._file_names.append(file.name)
                self.observer.reading(file)
                name = format_name or formats.recognize(known, file.first_line)
                self.result.formats.append(name)
                empty, first_position = True, index << LINE_BITS
                for item in known[name].reader.read(file.lines, **options(known[name])):
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

    def finish(self, tables: StagingTables, staged: int) -> int:
        """Delete the rows of suppressed numbers, and count all rows that were read. Returns how many of the `staged`
        ones are left. Call it in `lock`, so that `forget` is waited for. Raises UnreadableFile if all were rejected.
        """
        valid = staged - self._drop_suppressed(tables)
        self.result.read = valid + sum(self.result.rejected.values())
        if self.result.read and not valid:
            raise UnreadableFile(f"{', '.join(self._file_names)}: no valid row")
        return valid

    def _drop_suppressed(self, tables: StagingTables) -> int:
        suppressed = cache_versions.suppressed_hashes()
        if not suppressed:
            return 0
        rows = tables.stream("SELECT position, number FROM staged ORDER BY position")
        dropped = [(position, number) for position, number in rows if cache_versions.hash_of(number) in suppressed]
        for position, number in dropped:
            name, line = self._locate(position)
            self._reject(name, base.rejected(line, SUPPRESSED, number))
            run("DELETE FROM staged WHERE position = %s AND number = %s", [position, number])
        return len(dropped)

    def report_repeated(self, tables: StagingTables, identity: str, where: str = "1 = 1") -> None:
        """Count and report the staged rows that repeat the `identity` (columns) of an earlier one."""
        firsts = (
            f"SELECT position, number, min(position) OVER (PARTITION BY {identity}) AS first "  # noqa: S608
            f"FROM staged WHERE {where}"
        )
        repeated = f"SELECT position, number, first FROM ({firsts}) f WHERE position <> first ORDER BY position"  # noqa: S608
        for position, number, first in tables.stream(repeated):
            self.result.repeated += 1
            (name, line), (first_name, first_line) = self._locate(position), self._locate(first)
            earlier = f"line {first_line}" if name == first_name else f"{first_name}:{first_line}"
            self._on_reject(name, base.rejected(line, base.REPEATED, number, earlier))

    def _reject(self, name: str, rejected: Rejected) -> None:
        self.result.rejected[rejected.reason] = self.result.rejected.get(rejected.reason, 0) + 1
        self.rejected_with_number += rejected.number is not None and rejected.reason not in (SUPPRESSED, base.REPEATED)
        self._on_reject(name, rejected)

    def _locate(self, position: int) -> tuple[str, int]:
        return self._file_names[position >> LINE_BITS], position & ((1 << LINE_BITS) - 1)
