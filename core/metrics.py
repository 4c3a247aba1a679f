"""Prometheus metrics of this process.

A module declares its metrics at import, and counts by `inc`, `set` and `observe`, which never fail the caller.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec

import prometheus_client
from django.db import DatabaseError, InterfaceError, connection

from core.database_errors import describe

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How often a serving process calls its samplers.
SAMPLE_INTERVAL_S = 5.0

Labels = tuple[str, ...]
P = ParamSpec("P")

prometheus_client.disable_created_metrics()
_registry = prometheus_client.CollectorRegistry()


def log_exceptions(count: Callable[P, None]) -> Callable[P, None]:
    """Log whatever a counting function raises, by its type alone, so that the search goes on."""

    @wraps(count)
    def counted(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            count(*args, **kwargs)
        except Exception as error:
            log.warning("statistics: not counted (%s)", describe(error))

    return counted


class Metric:
    """One metric. Label values come from small, fixed sets and are never personal data.

    `labels`: the names of its labels. `zeros`: the label values that are shown as 0 before they are first counted,
    because Prometheus cannot see the increase of a counter that appears with its first value.
    """

    def __init__(self, name: str, text: str, labels: Labels = (), zeros: Iterable[Labels] = (), **options: Any) -> None:
        self.name, self.labels, self.kind = name, labels, type(self).__name__
        self._metric = getattr(prometheus_client, self.kind)(name, text, labels, registry=_registry, **options)
        self._children: dict[Labels, Any] = {}
        for values in zeros:
            self._child(values)
        declared.append(self)

    def _child(self, labels: Labels) -> Any:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels) if labels else self._metric
        return child


class Counter(Metric):
    @log_exceptions
    def inc(self, *labels: str, by: float = 1) -> None:
        self._child(labels).inc(by)


class Histogram(Metric):
    """Durations in seconds, unless the name says otherwise. `buckets`: their upper bounds."""

    @log_exceptions
    def observe(self, value: float, *labels: str) -> None:
        self._child(labels).observe(value)


class Gauge(Metric):
    @log_exceptions
    def set(self, value: float, *labels: str) -> None:
        self._child(labels).set(value)


#: All metrics of the imported modules.
declared: list[Metric] = []
_samplers: list[Callable[[], None]] = []


def sampler(function: Callable[[], None]) -> Callable[[], None]:
    """Decorates a function that sets gauges or does small maintenance, which serving processes call every
    SAMPLE_INTERVAL_S. It may raise django.db's errors."""
    _samplers.append(function)
    return function


def sample() -> None:
    for function in _samplers:
        _call(function)


@log_exceptions
def _call(function: Callable[[], None]) -> None:
    with suppress(DatabaseError, InterfaceError):  # health checks report it
        function()


def start() -> None:
    """Keep the gauges of this process up to date."""
    threading.Thread(target=_sample_regularly, name="metrics", daemon=True).start()


def _sample_regularly() -> None:
    pause = threading.Event()
    while True:
        sample()
        with suppress(DatabaseError, InterfaceError):
            connection.close()
        pause.wait(SAMPLE_INTERVAL_S)


def render() -> bytes:
    """The figures of this process in Prometheus's text format."""
    return prometheus_client.generate_latest(_registry)
