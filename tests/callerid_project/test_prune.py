"""What is past its age goes, and nothing else."""

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

from accounts import recorder
from accounts.models import IdempotencyRecord
from accounts.pruning import KEPT_DAYS
from lookup import marks, retention, usage
from lookup.answers import Found
from lookup.connectors.complaints import Complaints
from lookup.models import ComplaintDay, NumberMark, Usage
from tests.api import NUMBER, Integrator
from tests.callerid_project.test_settings import manage, show


def prune() -> dict[str, Any]:
    out = StringIO()
    call_command("prune", "--json", stdout=out)
    return dict(json.loads(out.getvalue()))


NOTHING = dict.fromkeys(
    ("idempotency_records", "usage_rows", "notices", "complaint_days", "subjects", "marks", "sessions"), 0
)


def test_it_says_how_many_of_each_it_deleted(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    integrator.search(Idempotency_Key="k")
    recorder.recorder.flush()
    assert prune() == NOTHING
    IdempotencyRecord.objects.update(created_at="2000-01-01T00:00:00Z")
    monkeypatch.setattr(usage, "PRUNE_ROWS", 1)
    Usage.objects.update(hour=timezone.now() - timedelta(days=KEPT_DAYS, hours=1))
    usage.count(token_id=1, slot="source_a", connector="x", outcome="found", elapsed_s=0.1)
    recorder.recorder.flush()
    complaint(timezone.now().date() - timedelta(days=400))
    marks.set([NUMBER])
    NumberMark.objects.update(at=timezone.now() - marks.KEPT - timedelta(hours=1))
    for key, hours in (("over", -1), ("going on", 1)):
        expires = timezone.now() + timedelta(hours=hours)
        Session.objects.create(session_key=key, session_data="", expire_date=expires)
    assert prune() == {
        "idempotency_records": 1,
        "usage_rows": 2,
        "notices": 0,
        "complaint_days": 1,
        "subjects": 0,
        "marks": 1,
        "sessions": 1,
    }
    assert Session.objects.get().session_key == "going on"
    assert Usage.objects.get().connector == "x"
    out = StringIO()
    call_command("prune", stdout=out)
    assert out.getvalue() == (
        "Deleted 0 remembered answers, 0 rows of statistics, 0 settled notices, 0 days of complaints, 0 of their "
        "subjects, 0 marks and 0 expired sessions.\n"
    )


def complaint(day: date, number: str = NUMBER) -> None:
    ComplaintDay.objects.create(number=int(number), source="desk", day=day, total=1)


@pytest.fixture
def today(settings: Any) -> date:
    """UTC's, with complaints that count for 20 days and are kept for 30."""
    settings.COMPLAINT_WINDOW_DAYS, settings.COMPLAINT_KEPT_DAYS = 20, 30
    return datetime.now(UTC).date()


def test_complaints_are_kept_for_so_many_days_today_included(db: None, today: date) -> None:
    for age in (0, 19, 20, 29, 30, 31, 4000):
        complaint(today - timedelta(days=age))
    assert prune()["complaint_days"] == 3
    ages = [(today - day).days for day in ComplaintDay.objects.order_by("-day").values_list("day", flat=True)]
    assert ages == [0, 19, 20, 29]
    assert prune() == NOTHING


def test_with_the_least_setting_every_complaint_that_counts_is_kept(db: None, settings: Any, today: date) -> None:
    settings.COMPLAINT_KEPT_DAYS = settings.COMPLAINT_WINDOW_DAYS
    settings.COMPLAINT_THRESHOLD = 20
    for age in range(25):
        complaint(today - timedelta(days=age))
    before = Complaints().lookup(NUMBER, timeout_s=1)
    assert prune()["complaint_days"] == 5
    assert Complaints().lookup(NUMBER, timeout_s=1) == before == Found(spam=True)


def test_old_complaints_are_found_by_their_index(db: None, today: date, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [today - timedelta(days=40)] * 5
    ComplaintDay.objects.bulk_create(
        ComplaintDay(number=12125000000 + n, source="desk", day=day, total=1)
        for n, day in enumerate([*old, *[today] * 20_000])
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    monkeypatch.setattr(retention, "PRUNE_ROWS", 2)
    with CaptureQueriesContext(connection) as ran:
        assert retention.prune_complaints() == 5
    finds = [query["sql"] for query in ran.captured_queries if query["sql"].startswith("SELECT")]
    assert len(finds) == 4
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{finds[0]}")
        assert "complaintday_day_source" in str(cursor.fetchall())


def test_two_at_once_share_the_work_and_searches_are_charged_meanwhile(
    transactional_db: None, today: date, quiet_sources: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PRUNE_ROWS", 5)
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
        running = [pool.submit(run, work) for work in (retention.prune_complaints, retention.prune_complaints, search)]
        first, second, statuses = [done.result(60) for done in running]
    assert first + second == 200
    assert statuses == [200] * 5
    assert not ComplaintDay.objects.exists()


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({}, "400"),
        ({"COMPLAINT_WINDOW_DAYS": "500"}, "500"),
        ({"COMPLAINT_WINDOW_DAYS": "500", "COMPLAINT_KEPT_DAYS": "500"}, "500"),
        ({"COMPLAINT_KEPT_DAYS": "90"}, "90"),
    ],
)
def test_how_long_complaints_are_kept(tmp_path: Path, environment: dict[str, str], kept: str) -> None:
    assert show(tmp_path, "settings.COMPLAINT_KEPT_DAYS", **environment) == kept


def test_complaints_that_still_count_cannot_be_set_to_go(tmp_path: Path) -> None:
    done = manage(tmp_path, "check", COMPLAINT_KEPT_DAYS="89")
    assert done.returncode != 0
    assert "Set COMPLAINT_KEPT_DAYS=90 or more, or leave it out." in done.stderr
    assert "Traceback" not in done.stderr
