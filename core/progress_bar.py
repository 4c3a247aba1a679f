"""Progress bars on stderr, shown on a terminal only."""

from typing import Any

from django.core.management.base import BaseCommand
from tqdm import tqdm

tqdm.monitor_interval = 0  # no monitoring thread


class ProgressBar:
    """Removed from the terminal when it is closed."""

    def __init__(self, command: BaseCommand, title: str = "rows", total: int | None = None, unit: str = "rows") -> None:
        self._unit = unit
        progress = "{percentage:3.0f}%|{bar}|{postfix}, {remaining} left" if total else "{elapsed}{postfix}"
        terminal: Any = command.stderr
        self._bar = tqdm(
            desc=title,
            total=total,
            bar_format="{desc}: " + progress,
            file=terminal._out,  # not Django's wrapper, which ends every write with a newline
            disable=not terminal.isatty(),
            leave=False,
            dynamic_ncols=True,
        )
        self.close = self._bar.close

    def update(self, position: int, rows: int | None = None) -> None:
        """`position`: of the total; `rows`: units done so far, for the rate, if the total is not in this unit."""
        rows = position if rows is None else rows
        elapsed = self._bar.format_dict["elapsed"] or 1
        self._bar.set_postfix_str(f"{rows:,} {self._unit}, {rows / elapsed:,.0f}/s", refresh=False)
        self._bar.update(position - self._bar.n)
