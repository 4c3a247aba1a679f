"""The charts on a source's page: its lookups by outcome, and how long its calls took."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from accounts.admin.charts import BAR_OPTIONS, CHART, TICKS
from monitoring.source_statistics import BOUNDS_MS, SourceUsage

#: Title, the attribute of SourceUsage, the name of its colour in console.css, and its colour there.
_OUTCOMES = (
    ("found", "found", "found", "#1f6fb2"),
    ("not found", "not_found", "not-found", "#8a93a0"),
    ("cached", "cached", "cached", "#45a5d9"),
    ("failed", "failed_calls", "failed", "#d03a20"),
    ("failed without a call", "not_called", "not-called", "#c58a00"),
)
_LINES = {
    **CHART,
    "scales": {"x": {"grid": {"display": False}, "ticks": TICKS}, "y": {"beginAtZero": True}},
}


def charts(steps: Sequence[tuple[datetime, SourceUsage]], *, label: str) -> dict[str, Any]:
    """The context of the two charts. `label`: the strftime format of the steps' labels. Durations beyond the greatest
    bound are drawn at the bound; the table says that they are over it."""
    labels = [f"{at:{label}}" for at, _ in steps]
    counts = {title: [getattr(usage, attribute) for _, usage in steps] for title, attribute, _, _ in _OUTCOMES}
    bars = [{"label": title, "data": counts[title], "backgroundColor": colour} for title, _, _, colour in _OUTCOMES]
    lines = [
        _line("median", "#1f6fb2", [usage.median_ms for _, usage in steps]),
        _line("p95", "#c58a00", [usage.p95_ms for _, usage in steps]),
    ]
    return {
        "legend": [(title, css, sum(counts[title])) for title, _, css, _ in _OUTCOMES],
        "outcomes": {"data": json.dumps({"labels": labels, "datasets": bars}), "options": BAR_OPTIONS},
        "latency": {"data": json.dumps({"labels": labels, "datasets": lines}), "options": json.dumps(_LINES)},
        "has_counts": any(map(any, counts.values())),
        "has_latency": any(usage.calls for _, usage in steps),
    }


def _line(label: str, colour: str, values: Sequence[float | None]) -> dict[str, Any]:
    drawn = [None if value is None else round(min(value, BOUNDS_MS[-1]), 1) for value in values]
    look = {"borderColor": colour, "backgroundColor": colour, "borderWidth": 2, "pointRadius": 2, "spanGaps": False}
    return {"label": label, "data": drawn, **look}
