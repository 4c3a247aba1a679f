"""What a scrape of /metrics contains."""

import shutil
import subprocess

import requests
from prometheus_client.parser import text_string_to_metric_families

from core import metrics
from tests.servers import Unavailable, required

#: A sample's name, and its labels sorted by name.
Sample = tuple[str, tuple[tuple[str, str], ...]]


class Figures(dict[Sample, float]):
    def __init__(self, text: str) -> None:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        super().__init__({(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples})

    def of(self, name: str, **labels: str) -> float:
        """The sum of the samples of this name that have these labels, without those of value 0."""
        return sum(value for (of, known), value in self.items() if of == name and labels.items() <= dict(known).items())


def scrape(url: str) -> Figures:
    answer = requests.get(f"{url}/metrics", timeout=30)
    assert answer.status_code == 200
    return Figures(answer.text)


def here() -> Figures:
    """Of this process."""
    return Figures(metrics.render().decode())


def promtool(*arguments: str, stdin: str = "") -> str:
    """What Prometheus's own tool prints; empty if it finds no fault in metrics. Raises CalledProcessError."""
    with required():
        if (binary := shutil.which("promtool")) is None:
            raise Unavailable("there is no promtool on PATH (Debian: prometheus)")
    done = subprocess.run([binary, *arguments], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
