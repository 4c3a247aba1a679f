"""The progress of an import."""

from collections.abc import Callable
from typing import Any


class ImportProgress:
    """Rows that an import has read and committed. `make_bar` returns a progress bar for a title, a total and a unit."""

    def __init__(self, make_bar: Callable[..., Any] | None = None) -> None:
        self._make_bar = make_bar
        self._bar: Any = None
        #: Rows read so far, of all files.
        self.rows = 0
        #: Rows that others see, also if the import is interrupted now.
        self.committed = 0

    def start(self, title: str, total: int | None, unit: str = "rows") -> None:
        """Show a bar in place of the one before. `total`: None if unknown."""
        self.close()
        self._bar = self._make_bar and self._make_bar(title, total, unit)

    def update(self, position: int, done: int | None = None) -> None:
        """`position`: of the total; `done`: in the unit, if the total is in another one."""
        if self._bar:
            self._bar.update(position, done)

    def close(self) -> None:
        if self._bar:
            self._bar.close()
