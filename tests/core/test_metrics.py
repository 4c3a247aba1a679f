"""Metrics of several processes are one sum, and those of a process that ended stay in it, except for its gauges."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core import metrics
from tests.metrics import Figures
from tests.plugin import ROOT

pytestmark = pytest.mark.once

# Counts once, prints a line, and ends when its standard input does. With `render` it prints all figures.
PROCESS = """
import sys
from core import metrics
counter = metrics.Counter("tests_calls", "Calls.", ("kind",), zeros=[("a",), ("b",)])
gauge = metrics.Gauge("tests_running", "Processes.")
histogram = metrics.Histogram("tests_seconds", "Durations.", buckets=(1, 2))
if sys.argv[1:] == ["render"]:
    print(metrics.render().decode())
    sys.exit()
for metric in metrics.declared:
    metric.create()
counter.inc("a")
gauge.set(1)
histogram.observe(1.5)
print("counted", flush=True)
sys.stdin.read()
"""


class Processes:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[subprocess.Popen[str]] = []

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "CALLERID_SERVING": "true", "PROMETHEUS_MULTIPROC_DIR": str(self.directory)}
        return subprocess.Popen(
            [sys.executable, "-c", PROCESS, *arguments],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def count(self) -> None:
        process = self._start()
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "counted\n"

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.communicate()
        self.running.remove(process)

    def figures(self) -> Figures:
        return Figures(self._start("render").communicate()[0])


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


def test_counters_survive_their_process_and_gauges_do_not(processes: Processes) -> None:
    for _ in range(3):
        processes.count()
    assert processes.figures().of("tests_running") == 3
    processes.kill(processes.running[1])
    (processes.directory / "1.lock").unlink()  # as some systems do to old files in /tmp
    figures = processes.figures()
    assert figures.of("tests_calls_total", kind="a") == 3
    assert figures.of("tests_running") == 2
    assert figures.of("tests_seconds_bucket", le="1.0") == 0
    assert figures.of("tests_seconds_bucket", le="2.0") == 3
    # A new process continues the files of the one that ended.
    files = len(list(processes.directory.iterdir()))
    processes.count()
    assert len(list(processes.directory.iterdir())) == files
    figures = processes.figures()
    assert (figures.of("tests_calls_total", kind="a"), figures.of("tests_running")) == (4, 3)
    for process in list(processes.running):
        processes.kill(process)
    figures = processes.figures()
    assert (figures.of("tests_calls_total", kind="a"), figures.of("tests_running")) == (4, 0)
    assert ("tests_calls_total", (("kind", "b"),)) in figures


def test_counting_never_fails_its_caller(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "declared", [])
    counter = metrics.Counter("tests_other_calls", "Calls.", ("kind",))
    counter.inc("a", "one label too many")
    assert "not counted (ValueError)" in caplog.text
