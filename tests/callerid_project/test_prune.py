"""What is past its age goes, and nothing else."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.models import IdempotencyRecord
from lookup import usage
from lookup.models import Usage
from tests.api import Integrator


def prune() -> dict[str, Any]:
    out = StringIO()
    call_command("prune", "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


def test_it_says_how_many_remembered_answers_and_rows_of_statistics_it_deleted(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    integrator.search(Idempotency_Key="k")
    usage.flush()
    assert prune() == {"idempotency_records": 0, "usage_rows": 0}
    IdempotencyRecord.objects.update(created_at="2000-01-01T00:00:00Z")
    monkeypatch.setattr(usage, "PRUNE_ROWS", 1)
    Usage.objects.update(hour=timezone.now() - timedelta(days=usage.KEPT_DAYS, hours=1))
    usage.count(token_id=1, slot="source_a", connector="x", outcome="found", elapsed_s=0.1)
    usage.flush()
    assert prune() == {"idempotency_records": 1, "usage_rows": 2}
    assert Usage.objects.get().connector == "x"
    out = StringIO()
    call_command("prune", stdout=out)
    assert out.getvalue() == "Deleted 0 remembered answers and 0 rows of statistics.\n"
