"""Charges that are cancelled at random moments: each answer is one debit, no other debit stays, and nothing leaks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import plugin
from tests.reliability import LONG
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

CHARGES = 10_000 if LONG else 1_000
WRONG = ("tasks", "connections in use", "paid twice", "paid without an answer", "answered without a payment")


def test_cancelled_charges_cost_nothing_and_leak_nothing(tmp_path: Path, postgres_url: str) -> None:
    service = Service(tmp_path, {**plugin.generated_keys(), "DATABASE_URL": postgres_url, "REDIS_URL": ""})
    service.manage("migrate", "--verbosity=0")
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.cancellations", str(CHARGES)],
        cwd=plugin.ROOT,
        env={**service.env, "DJANGO_SETTINGS_MODULE": "callerid_project.settings"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    print(result)  # noqa: T201
    assert [result[name] for name in (*WRONG, "disagreements")] == [0] * 6
    assert result["cancelled"] > CHARGES / 10
    assert result["answered"] > CHARGES / 2
