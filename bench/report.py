"""Measurements as Markdown tables and SVG charts."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One measurement. `app_ms`, `postgres_ms`, `redis_ms`, `vendors_ms`: CPU milliseconds per search. `load_us`: CPU
    microseconds of the load generator per search. None: not measured."""

    rate: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    app_ms: float | None = None
    postgres_ms: float | None = None
    redis_ms: float | None = None
    vendors_ms: float | None = None
    resident_mb: float | None = None
    load_us: float | None = None
    incomplete: int = 0
    errors: int = 0
    locked: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{column.title} {value:.{column.digits}f}" for column, value in self._present())

    def _present(self) -> "Iterator[tuple[Column, float]]":
        for column in COLUMNS:
            if (value := getattr(self, column.field)) is not None and (value or not column.hide_zero):
                yield column, value


#: One measurement per round, by name. The measurements of a round were made one after the other.
Results = Mapping[str, Sequence[Measurement]]


@dataclass(frozen=True)
class Column:
    title: str
    field: str
    digits: int
    hide_zero: bool = False

    def values(self, measured: Sequence[Measurement]) -> list[float]:
        return [value for one in measured if (value := getattr(one, self.field)) is not None]


COLUMNS = (
    Column("searches/s", "rate", 0),
    Column("p50 ms", "p50_ms", 1),
    Column("p99 ms", "p99_ms", 0),
    Column("app CPU ms", "app_ms", 2),
    Column("PostgreSQL CPU ms", "postgres_ms", 2),
    Column("Redis CPU ms", "redis_ms", 3),
    Column("vendors' CPU ms", "vendors_ms", 2, hide_zero=True),
    Column("largest process MB", "resident_mb", 0),
    Column("load CPU µs", "load_us", 0),
    Column("incomplete answers", "incomplete", 0, hide_zero=True),
    Column("5xx errors", "errors", 0, hide_zero=True),
    Column("'database is locked' log lines", "locked", 0, hide_zero=True),
)

#: The first one is ours.
COLOURS = ("#4f46e5", "#9ca3af", "#0d9488", "#f59e0b")


def medians_table(results: Results) -> str:
    """Returns Markdown: medians, with minimum and maximum when there are several rounds."""
    columns = [column for column in COLUMNS if not column.hide_zero or any(_all(results, column))]
    return _table(results, columns, lambda name, column: _spread(column, column.values(results[name])))


def ratios_table(results: Results, base: str) -> str:
    """Returns Markdown: the median over all rounds of the ratio to `base` in the same round."""
    columns = [column for column in COLUMNS if not column.hide_zero and any(_all(results, column))]

    def cell(name: str, column: Column) -> str:
        pairs = zip(column.values(results[name]), column.values(results[base]), strict=False)
        compared = [one / other for one, other in pairs if other]
        return f"{statistics.median(compared):.2f}" if compared else ""

    return _table(results, columns, cell)


def _all(results: Results, column: Column) -> list[float]:
    return [value for measured in results.values() for value in column.values(measured)]


def _table(results: Results, columns: Sequence[Column], cell: Callable[[str, Column], str]) -> str:
    lines = [["", *(column.title for column in columns)], ["---"] * (len(columns) + 1)]
    lines += [[name, *(cell(name, column) for column in columns)] for name in results]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(column: Column, values: Sequence[float]) -> str:
    if not values:
        return ""
    text = f"{statistics.median(values):,.{column.digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{column.digits}f}–{max(values):,.{column.digits}f})"
    return text


def plot_saturation(results: Results, path: Path) -> None:
    """Writes an SVG: rates and 99th percentiles with their range, and the CPU time per search by process."""
    pyplot = _pyplot()
    names = list(results)
    figure, (rates, tails, costs) = pyplot.subplots(1, 3, figsize=(11, 0.9 + 0.45 * len(names)), sharey=True)
    for axes, column in ((rates, COLUMNS[0]), (tails, COLUMNS[2])):
        for row, name in enumerate(names):
            if values := column.values(results[name]):
                middle = statistics.median(values)
                error = [[middle - min(values)], [max(values) - middle]]
                axes.barh(row, middle, xerr=error, color=COLOURS[row > 0], height=0.6, ecolor="#374151", capsize=2)
        axes.set_title(column.title, loc="left")
    for row, name in enumerate(names):
        left = 0.0
        for column, colour in zip(COLUMNS[3:6], ("#334155", "#0d9488", "#f59e0b"), strict=True):
            if values := column.values(results[name]):
                label = column.title.removesuffix(" CPU ms") if name == names[0] else None
                costs.barh(row, statistics.median(values), left=left, color=colour, height=0.6, label=label)
                left += statistics.median(values)
    costs.set_title("CPU ms per search", loc="left")
    costs.legend(frameon=False, loc="best")
    rates.set_yticks(range(len(names)), names)
    rates.invert_yaxis()
    _save(figure, path)


def plot_by_rate(by_rate: Mapping[float, Results], path: Path) -> None:
    """Writes an SVG: the median and the 99th percentile by offered rate (searches per second)."""
    pyplot = _pyplot()
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for axes, column in zip(panels, COLUMNS[1:3], strict=True):
        for row, name in enumerate(next(iter(by_rate.values()))):
            found = [(rate, column.values(results[name])) for rate, results in sorted(by_rate.items())]
            rates = [rate for rate, _ in found]
            colour = COLOURS[row % len(COLOURS)]
            axes.plot(rates, [statistics.median(values) for _, values in found], "o-", color=colour, label=name)
            axes.fill_between(
                rates, [min(v) for _, v in found], [max(v) for _, v in found], color=colour, alpha=0.15, linewidth=0
            )
        axes.set_title(column.title, loc="left")
        axes.set_xlabel("searches/s offered")
        axes.set_ylim(0, axes.get_ylim()[1] * 1.1)
    panels[0].legend(frameon=False)
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams |= {"font.size": 9, "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False}
    return pyplot


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
