"""Schemathesis sends generated requests to the service, and holds its responses against the OpenAPI document."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import load
from tests.plugin import ROOT
from tests.reliability import LONG
from tests.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.once]

EXAMPLES = 5_000 if LONG else 300
#: The short form sends the same requests each time.
SEED = [] if LONG else ["--seed=1"]
#: Places for most numbers, and a few names: loading the whole numbering plan takes long.
FILL = """
from phonebook.imports.sample_data import load_sample_data
from phonebook.models import NumberPrefix
load_sample_data()
for digit in range(1, 10): NumberPrefix.objects.create(prefix=digit, place="Example City")
"""


def test_responses_are_what_the_schema_says(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve(RATE_LIMIT="1000000/s", AUTH_FAILURE_RATE="1000000/s")
    service.manage("shell", "--no-imports", "-c", FILL)
    (token,) = load.create_tokens(service, 1, credits=1_000_000)
    report = tmp_path / "report.json"
    options = ["--checks=all", f"--max-examples={EXAMPLES}", "--continue-on-failure", "--request-timeout=60", *SEED]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", f"--config-file={ROOT / 'tests' / 'schemathesis.toml'}"),
            *("run", f"{service.url}/schema", f"--url={service.url}", *options),
            *("--no-color", "--report=json", f"--report-json-path={report}"),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.contract_hooks",
            "CONTRACT_TOKEN": token,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
    said = json.loads(report.read_text(encoding="utf-8"))
    assert said["test_cases"]["generated"] >= EXAMPLES
    assert said["test_cases"]["without_checks"] == said["test_cases"]["errored"] == 0
    # The hook has worked: searches with the token were answered, not only refused.
    assert said["valid_rates"]["POST /callerid/search"]["fuzzing"]["accepted"] >= EXAMPLES // 10
