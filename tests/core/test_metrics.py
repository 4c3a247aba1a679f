"""Metrics of a process: declared, counted, sampled and shown."""

import subprocess
import sys

import pytest

from core import metrics
from tests.metrics import Figures
from tests.plugin import ROOT

pytestmark = pytest.mark.once


def test_all_metrics_of_a_process_are_shown_from_its_start() -> None:
    program = """
from core import metrics
counter = metrics.Counter("tests_calls", "Calls.", ("kind",), zeros=[("a",), ("b",)])
gauge = metrics.Gauge("tests_running", "Processes.")
histogram = metrics.Histogram("tests_seconds", "Durations.", buckets=(1, 2))
sampled = metrics.sampler(lambda: gauge.set(7))
metrics.start()
metrics.sample()
counter.inc("a")
histogram.observe(1.5)
print(metrics.render().decode())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    figures = Figures(done.stdout)
    assert figures.of("tests_calls_total", kind="a") == 1
    assert ("tests_calls_total", (("kind", "b"),)) in figures
    assert figures.of("tests_running") == 7
    assert figures.of("tests_seconds_bucket", le="1.0") == 0
    assert figures.of("tests_seconds_bucket", le="2.0") == 1


def test_counting_never_fails_its_caller(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "declared", [])
    counter = metrics.Counter("tests_other_calls", "Calls.", ("kind",))
    counter.inc("a", "one label too many")
    assert "not counted (ValueError)" in caplog.text
