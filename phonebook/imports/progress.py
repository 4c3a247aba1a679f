"""The progress of an import."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from phonebook.imports.files import TextFile

#: Called with the number of rows done.
OnProgress = Callable[[int], None]


def ignore_progress(done: int) -> None:
    """Do nothing."""


class ImportProgress:
    """Rows that an import has read and committed. `make_bar` returns a progress bar for a title, a total and a unit."""

    def __init__(self, make_bar: Callable[..., Any] | None = None) -> None:
        self._make_bar = make_bar
        self._bar: Any = None
        self._file: TextFile | None = None
        #: Rows read so far, of all files.
        self.rows = 0
        self._rows_before = self._merged = self._to_merge = 0
        self._finished = self._in_parts = False

    def downloaded(self, done: int, total: int | None) -> None:
        """`done`: bytes of the file so far; `total`: None if unknown."""
        if self._bar is None:
            self._show("downloading", total, "MB")
        if self._bar:
            self._bar.update(done, done // 10**6)

    def reading(self, file: TextFile) -> None:
        """The rows of `file` are read next."""
        self._file, self._rows_before = file, self.rows
        self._show(Path(file.name).name, file.size)

    def read(self, rows: int) -> None:
        self.rows = rows
        if self._bar and self._file:
            self._bar.update(self._file.position, rows - self._rows_before)

    def merging(self, rows: int, *, in_parts: bool) -> None:
        """Everything is staged; `rows` will be compared and written. `in_parts`: what is written is committed."""
        self._to_merge, self._in_parts = rows, in_parts
        self._show("merging", rows)

    def merged(self, rows: int) -> None:
        """`rows`: written so far."""
        self._merged = rows
        if self._bar:
            self._bar.update(rows)

    def finished(self) -> None:
        """Everything is committed."""
        self._finished = True

    @property
    def has_committed(self) -> bool:
        return self._finished or (self._in_parts and self._merged > 0)

    def interrupted_message(self) -> str:
        if self._finished:
            return "Interrupted after all rows were written."
        if not self.has_committed:
            return "Interrupted. Nothing was changed."
        return (
            f"Interrupted after {self._merged:,} of {self._to_merge:,} rows were written. Run the same command again "
            "for the rest: nothing counts twice."
        )

    def close(self) -> None:
        if self._bar:
            self._bar.close()

    def _show(self, title: str, total: int | None, unit: str = "rows") -> None:
        self.close()
        self._bar = self._make_bar and self._make_bar(title, total, unit)
