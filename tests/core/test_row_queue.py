"""Rows in memory are inserted once, never fail or delay the caller, and their memory is bounded."""

import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError, connection

from accounts.models import SearchHour
from core import db, row_queue
from core.row_queue import RowQueue
from tests import plugin
from tests.core.test_counters import missing_table

HOUR = datetime(2026, 3, 1, tzinfo=UTC)


def hours(flush_interval_s: float | None = None) -> RowQueue:
    return RowQueue(
        name="the table of hours",
        model=SearchHour,
        columns=("hour", "outcome", "count"),
        to_columns=lambda row: (connection.ops.adapt_datetimefield_value(HOUR), *row),
        flush_interval_s=flush_interval_s,
    )


def written() -> list[tuple[str, int]]:
    return list(SearchHour.objects.order_by("outcome").values_list("outcome", "count"))


@pytest.mark.django_db
def test_rows_are_inserted_in_batches_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_queue, "BATCH_ROWS", 2)
    queue = hours()
    for number in range(5):
        queue.add((f"{number}", number))
    queue.flush()
    queue.flush()
    assert written() == [(f"{number}", number) for number in range(5)]
    assert SearchHour.objects.first().hour == HOUR  # type: ignore[union-attr]


@pytest.mark.django_db
def test_an_outage_is_logged_once_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    queue = hours()
    with missing_table():
        for outcome in ("1", "2"):
            queue.add((outcome, 1))
            queue.flush()
    queue.add(("3", 1))
    queue.flush()
    assert written() == [("1", 1), ("2", 1), ("3", 1)]
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "the table of hours is kept in memory",
        "the table of hours is written again",
    ]


@pytest.mark.django_db
def test_the_oldest_rows_are_dropped_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(row_queue, "MAX_ROWS", 3)
    queue = hours()
    with missing_table():
        for number in range(8):
            queue.add((f"{number}", 1))
            if number == 5:
                queue.flush()
        queue.flush()
    assert queue.pending_rows == 3
    assert [message for message in caplog.messages if "dropped" in message] == [
        "the table of hours: 3 rows wait to be written, the oldest are dropped"
    ]
    queue.flush()
    assert written() == [("5", 1), ("6", 1), ("7", 1)]


@pytest.mark.django_db
def test_refused_values_do_not_block_later_rows(caplog: pytest.LogCaptureFixture) -> None:
    queue = hours()
    for _ in range(2):  # breaks the unique constraint
        queue.add(("twice", 1))
    queue.flush()
    queue.add(("later", 1))
    queue.flush()
    assert written() == [("later", 1)]
    assert "the table of hours: 2 rows dropped, the database refused their values" in caplog.text


@pytest.mark.django_db
def test_batches_before_a_failure_are_not_inserted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_the_second(statement: str, parameters: Sequence[Any]) -> None:
        inserts.append(statement)
        if len(inserts) == 2:
            raise OperationalError
        run(statement, parameters)

    run, inserts = db.run, list[str]()
    monkeypatch.setattr(db, "run", fail_the_second)
    monkeypatch.setattr(row_queue, "BATCH_ROWS", 2)
    queue = hours()
    for number in range(5):
        queue.add((f"{number}", 1))
    queue.flush()
    assert len(written()) == 2
    queue.flush()
    assert written() == [(f"{number}", 1) for number in range(5)]


@pytest.mark.django_db(transaction=True)
def test_close_inserts_at_once() -> None:
    queue = hours(flush_interval_s=3600)
    queue.add(("last", 1))
    assert queue.close()
    assert written() == [("last", 1)]


_ENDS = """
import os
from core.background import BackgroundWriter

class Writer(BackgroundWriter):
    def flush(self):
        os.write(1, f"{self.name} ".encode())

for name in ("first", "second"):
    writer = Writer(3600)
    writer.name = name
    writer.start_thread()
"""


def test_a_process_flushes_its_rows_at_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDS],
        cwd=plugin.ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "callerid_project.settings"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert sorted(done.stdout.split()) == ["first", "second"]
