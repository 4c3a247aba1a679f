"""The console's charts: data and options of chart.js, as JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

#: Title, colour and figures of a part of the bars, or of a line; None: no figure.
Series = Iterable[tuple[str, str, Sequence[float | None]]]

_CHART: dict[str, Any] = {
    "animation": False,
    "responsive": True,
    "maintainAspectRatio": False,
    "interaction": {"mode": "index", "intersect": False},
    "plugins": {"legend": {"display": False}},
}
_X_AXIS = {"grid": {"display": False}, "ticks": {"maxRotation": 0, "autoSkipPadding": 16}}
_BARS = {
    **_CHART,
    "categoryPercentage": 0.9,
    "barPercentage": 0.9,
    "maxBarThickness": 36,
    "scales": {
        "x": {**_X_AXIS, "stacked": True},
        "y": {"stacked": True, "beginAtZero": True, "suggestedMax": 1, "ticks": {"precision": 0}},
    },
}
_LINES = {**_CHART, "scales": {"x": _X_AXIS, "y": {"beginAtZero": True}}}


def stacked_bars(labels: Sequence[str], series: Series) -> dict[str, str]:
    """`data` and `options` of unfold's bar chart."""
    return _chart(_BARS, labels, series, {})


def lines(labels: Sequence[str], series: Series) -> dict[str, str]:
    """`data` and `options` of unfold's line chart."""
    return _chart(_LINES, labels, series, {"borderWidth": 2, "pointRadius": 2, "spanGaps": False})


def _chart(options: Any, labels: Sequence[str], series: Series, look: dict[str, Any]) -> dict[str, str]:
    datasets = [
        {"label": title, "data": figures, "backgroundColor": colour, "borderColor": colour, **look}
        for title, colour, figures in series
    ]
    return {"data": json.dumps({"labels": labels, "datasets": datasets}), "options": json.dumps(options)}
