"""The alerts fire and end as their unit tests say, and they and the dashboard use metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from callerid_project import asgi  # noqa: F401  (imports all modules that declare metrics)
from core import metrics
from tests.metrics import promtool
from tests.plugin import ROOT

pytestmark = pytest.mark.once

PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTS = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
NAMES = set(re.findall(r"- alert: (\w+)", ALERTS))


def samples() -> set[str]:
    """The names of all samples of the service."""
    endings = {"Counter": ("_total",), "Gauge": ("",), "Histogram": ("_bucket", "_count", "_sum")}
    return {metric.name + ending for metric in metrics.declared for ending in endings[metric.kind]}


def queries() -> list[str]:
    panels = json.loads((ROOT / "deploy" / "grafana" / "callerid.json").read_text(encoding="utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_rules_and_configurations_are_valid(tmp_path: Path) -> None:
    promtool("check", "rules", str(PROMETHEUS / "alerts.yml"))
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))
    for file in (PROMETHEUS / "alerts.yml", ROOT / "deploy" / "docker" / "prometheus.yml"):  # as Compose mounts them
        (tmp_path / file.name).write_bytes(file.read_bytes())
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_every_alert_fires_and_ends_as_its_tests_say() -> None:
    tests = [PROMETHEUS / "alerts_test.yml", PROMETHEUS / "alerts_of_days_test.yml"]
    promtool("test", "rules", *map(str, tests))
    expected = "".join(test.read_text(encoding="utf-8") for test in tests)
    for name in NAMES:
        fires = re.findall(rf"alertname: {name}\n +exp_alerts:(.*)\n", expected)
        assert "" in fires, f"{name} never fires in a test"


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(sections) == sorted(NAMES)
    assert set(re.findall(r"runbook: docs/alerts.md#(\w+)", ALERTS)) == {name.lower() for name in NAMES}


def test_alerts_and_dashboard_use_metrics_that_exist() -> None:
    used = re.findall(r"\bcallerid_\w+", "\n".join([ALERTS, *queries()]))
    assert set(used) - samples() == set()
    assert len(queries()) > 10


def test_the_dashboard_queries_are_valid(tmp_path: Path) -> None:
    rules = [
        {"record": f"query_{index}", "expr": query.replace("$__rate_interval", "5m")}
        for index, query in enumerate(queries())
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    promtool("check", "rules", str(file))
