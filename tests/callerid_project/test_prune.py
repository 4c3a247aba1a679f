"""`prune` deletes expired rows and nothing else."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import IdempotencyRecord
from core import write_buffer
from core.retention import KEPT_DAYS
from lookup.answers import NotFound, SourceCall
from monitoring import source_statistics
from monitoring.models import Source
from phonebook import cache_versions
from phonebook.imports import complaints as complaint_imports
from phonebook.models import CacheVersion, ComplaintDay
from tests.api import NUMBER, Integrator
from tests.callerid_project.test_settings import load
from tests.plugin import of_addons


def prune() -> dict[str, Any]:
    out = StringIO()
    call_command("prune", "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


NOTHING = dict.fromkeys(
    (
        *("idempotency_records", "usage_rows", "unknown_charges"),
        *("complaint_days", "imports", "subjects", "cache_versions", "sessions"),
        *of_addons("PRUNED"),
    ),
    0,
)


def test_prune_reports_how_many_rows_it_deleted(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    integrator.search(Idempotency_Key="k")
    write_buffer.process_buffer.flush()
    assert prune() == NOTHING
    IdempotencyRecord.objects.update(created_at="2000-01-01T00:00:00Z")
    monkeypatch.setattr(source_statistics, "PRUNE_ROWS", 1)
    Source.objects.update(hour=timezone.now() - timedelta(days=KEPT_DAYS, hours=1))
    source_statistics.count("source_a", [SourceCall("x", NotFound(), elapsed_s=0.1)])
    write_buffer.process_buffer.flush()
    complaint(timezone.now().date() - timedelta(days=400))
    cache_versions.bump([NUMBER])
    CacheVersion.objects.update(changed_at=timezone.now() - cache_versions.KEPT - timedelta(hours=1))
    for key, hours in (("over", -1), ("going on", 1)):
        expires = timezone.now() + timedelta(hours=hours)
        Session.objects.create(session_key=key, session_data="", expire_date=expires)
    assert prune() == {
        **NOTHING,
        "idempotency_records": 1,
        "usage_rows": 2,
        "unknown_charges": 0,
        "complaint_days": 1,
        "subjects": 0,
        "cache_versions": 1,
        "sessions": 1,
        **of_addons("PRUNED"),
    }
    assert Session.objects.get().session_key == "going on"
    assert Source.objects.get().connector == "x"
    out = StringIO()
    call_command("prune", stdout=out)
    assert out.getvalue().startswith("Deleted: idempotency records 0, usage rows 0, unknown charges 0, ")


def complaint(day: date, number: str = NUMBER) -> None:
    ComplaintDay.objects.create(number=int(number), source="desk", day=day, total=1)


@pytest.fixture
def today(settings: Any) -> date:
    """Today in UTC. Complaints count for 20 days and are kept for 30."""
    settings.COMPLAINT_WINDOW_DAYS, settings.COMPLAINT_KEPT_DAYS = 20, 30
    return datetime.now(UTC).date()


def test_complaints_are_kept_for_the_set_number_of_days(db: None, today: date) -> None:
    for age in (0, 19, 20, 29, 30, 31, 4000):
        complaint(today - timedelta(days=age))
    assert prune()["complaint_days"] == 3
    ages = [(today - day).days for day in ComplaintDay.objects.order_by("-day").values_list("day", flat=True)]
    assert ages == [0, 19, 20, 29]
    assert prune() == NOTHING


def test_old_complaints_are_found_by_their_index(db: None, today: date, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [today - timedelta(days=40)] * 5
    ComplaintDay.objects.bulk_create(
        ComplaintDay(number=12125000000 + n, source="desk", day=day, total=1)
        for n, day in enumerate([*old, *[today] * 20_000])
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    monkeypatch.setattr(complaint_imports, "PRUNE_ROWS", 2)
    with CaptureQueriesContext(connection) as ran:
        assert complaint_imports.prune_complaints() == 5
    finds = [query["sql"] for query in ran.captured_queries if query["sql"].startswith("SELECT")]
    assert len(finds) == 4
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{finds[0]}")
        assert "complaintday_day_source" in str(cursor.fetchall())


def test_concurrent_prunes_share_the_work_and_block_no_search(
    transactional_db: None, today: date, quiet_sources: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complaint_imports, "PRUNE_ROWS", 5)
    ComplaintDay.objects.bulk_create(
        ComplaintDay(number=12125000000 + n, source="desk", day=today - timedelta(days=40), total=1) for n in range(200)
    )
    integrator, together = Integrator(), Barrier(3)

    def run(work: Callable[[], Any]) -> Any:
        together.wait(10)
        try:
            return work()
        finally:
            connection.close()

    def search() -> list[int]:
        return [integrator.search().status_code for _ in range(5)]

    with ThreadPoolExecutor(3) as pool:
        running = [
            pool.submit(run, work)
            for work in (complaint_imports.prune_complaints, complaint_imports.prune_complaints, search)
        ]
        first, second, statuses = [done.result(60) for done in running]
    assert first + second == 200
    assert statuses == [200] * 5
    assert not ComplaintDay.objects.exists()


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({}, 400),
        ({"COMPLAINT_WINDOW_DAYS": "500"}, 500),
        ({"COMPLAINT_KEPT_DAYS": "90"}, 90),
    ],
)
def test_how_long_complaints_are_kept(tmp_path: Path, environment: dict[str, str], kept: int) -> None:
    assert kept == load(tmp_path, **environment).COMPLAINT_KEPT_DAYS
