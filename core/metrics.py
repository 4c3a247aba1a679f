"""Prometheus metrics, summed over all worker processes of one host.

A module declares its metrics at import, and counts by `inc`, `set` and `observe`, which never fail the caller. In a
service each worker writes its figures into files in PROMETHEUS_MULTIPROC_DIR, which the main process creates
(callerid_project.serve), and any worker renders the sum of all. So nothing is lost when a worker dies. Without that
directory, as in commands and tests, the figures are those of the process.

The files are named by a slot, a small number, and not by the process id. A new worker takes the first slot that no
running process holds and continues the counters there, so the files do not become more with each restart.
"""

import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.counters import log_exceptions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How often a serving process calls its samplers.
SAMPLE_INTERVAL_S = 5.0

Labels = tuple[str, ...]


class Metric:
    """One metric. Label values come from small, fixed sets and are never personal data.

    `labels`: the names of its labels. `zeros`: the label values that are shown as 0 before they are first counted,
    because Prometheus cannot see the increase of a counter that appears with its first value.
    """

    kind = ""

    def __init__(self, name: str, text: str, labels: Labels = (), zeros: Iterable[Labels] = (), **options: Any) -> None:
        self.name, self.text, self.labels, self._zeros, self._options = name, text, labels, zeros, options
        self._children: dict[Labels, Any] = {}
        declared.append(self)

    @cached_property
    def _metric(self) -> Any:
        import prometheus_client  # takes 10 ms, which commands that count nothing save

        cls = getattr(prometheus_client, self.kind)
        return cls(self.name, self.text, self.labels, registry=_registry(), **self._options)

    def _child(self, labels: Labels) -> Any:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._metric.labels(*labels) if labels else self._metric
        return child

    def create(self) -> None:
        """Create the library's objects: the metric is shown before it is first used, and no two threads create it."""
        self._metric  # noqa: B018
        for labels in self._zeros if self.labels else [()]:
            self._child(labels)


class Counter(Metric):
    kind = "Counter"

    @log_exceptions
    def inc(self, *labels: str, by: float = 1) -> None:
        self._child(labels).inc(by)


class Histogram(Metric):
    """Durations in seconds, unless the name says otherwise. `buckets`: their upper bounds."""

    kind = "Histogram"

    @log_exceptions
    def observe(self, value: float, *labels: str) -> None:
        self._child(labels).observe(value)


class Gauge(Metric):
    """A figure of running processes only. `multiprocess_mode`: how theirs are combined."""

    kind = "Gauge"

    def __init__(self, *args: Any, multiprocess_mode: str = "livesum", **options: Any) -> None:
        super().__init__(*args, multiprocess_mode=multiprocess_mode, **options)

    @log_exceptions
    def set(self, value: float, *labels: str) -> None:
        self._child(labels).set(value)


#: All metrics of the imported modules.
declared: list[Metric] = []
_samplers: list[Callable[[], None]] = []


def sampler(function: Callable[[], None]) -> Callable[[], None]:
    """Decorates a function that sets gauges, which serving processes call every SAMPLE_INTERVAL_S."""
    _samplers.append(function)
    return function


def sample() -> None:
    for function in _samplers:
        log_exceptions(function)()


def start() -> None:
    """Show all metrics of this process, and keep its gauges up to date."""
    for metric in declared:
        metric.create()
    threading.Thread(target=_sample_regularly, name="metrics", daemon=True).start()


def _sample_regularly() -> None:
    pause = threading.Event()
    while True:
        sample()
        pause.wait(SAMPLE_INTERVAL_S)


def render() -> bytes:
    """The figures in Prometheus's text format. Reads only memory and files."""
    from prometheus_client import generate_latest

    return generate_latest(_AllProcesses() if _directory() else _registry())


class _AllProcesses:
    def collect(self) -> Iterable[Any]:
        from prometheus_client.multiprocess import MultiProcessCollector

        directory = Path(_directory())
        files = [str(path) for path in directory.glob("*.db") if not _is_gauge_of_ended_process(path)]
        return MultiProcessCollector.merge(files)


@cache
def _registry() -> "CollectorRegistry":
    """The registry of this process, created before its first metric."""
    import prometheus_client
    from prometheus_client import values

    prometheus_client.disable_created_metrics()
    directory = _directory()
    slot = _claim_slot(Path(directory)) if directory else ""
    values.ValueClass = values.MultiProcessValue(lambda: slot) if directory else values.MutexValue
    return prometheus_client.CollectorRegistry()


def _directory() -> str:
    """Empty in a process that does not serve: a command's figures would be mixed up with those of the service."""
    return os.environ.get("PROMETHEUS_MULTIPROC_DIR", "") if os.environ.get("CALLERID_SERVING") else ""


def _claim_slot(directory: Path) -> str:
    """The first slot that no running process holds. The lock is held until this process ends, however it ends."""
    for slot in map(str, count()):
        lock = os.open(directory / f"{slot}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            for gauges in directory.glob(f"gauge_*_{slot}.db"):
                gauges.unlink()
            return slot
    raise AssertionError


def _is_gauge_of_ended_process(path: Path) -> bool:
    kind, *_, slot = path.stem.split("_")
    if kind != "gauge":
        return False
    # Systems that remove old files from /tmp may have removed that of an ended process, which nobody has locked.
    lock = os.open(path.with_name(f"{slot}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
