"""Rows in memory are written to their table once, whatever happens to the database, and never fail a caller."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from accounts import tokens
from accounts.models import SearchHour
from accounts.request_statistics import HOURS, TOKEN_DAYS
from core import db, write_buffer
from core.write_buffer import BufferedTable, WriteBuffer
from monitoring import source_statistics
from tests import plugin

HOUR = datetime(2026, 3, 1, tzinfo=UTC)
#: The same table without counters: each row is a new one.
LOG = BufferedTable(SearchHour, ("hour", "outcome", "count"))


def add(process_buffer: WriteBuffer, outcome: str = "found_one", how_many: int = 1) -> None:
    process_buffer.add((HOURS, (HOUR, outcome), [(0, how_many)]))


def add_new(process_buffer: WriteBuffer, outcome: str) -> None:
    process_buffer.add((LOG, (HOUR, outcome, 1), ()))


def counted() -> list[tuple[Any, ...]]:
    return list(SearchHour.objects.order_by("outcome").values_list("outcome", "count"))


@contextmanager
def missing_table() -> Iterator[None]:
    """The database answers with an error, as before `migrate`. PostgreSQL ends a transaction at an
    error, so tests with this have none."""

    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename("accounts_searchhour", "elsewhere")
    try:
        yield
    finally:
        rename("elsewhere", "accounts_searchhour")


# --- Writing -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_flush_writes_what_the_orm_would(process_buffer: WriteBuffer) -> None:
    for how_many in (3, 4, 9_000_000_000):
        add(process_buffer, "written", how_many)
        process_buffer.flush()
        SearchHour.objects.get_or_create(hour=HOUR, outcome="expected")
        SearchHour.objects.filter(outcome="expected").update(count=F("count") + how_many)
    expected, written = SearchHour.objects.order_by("outcome").values()
    assert {**written, "id": 0, "outcome": ""} == {**expected, "id": 0, "outcome": ""}
    assert written["count"] == 9_000_000_007


@pytest.mark.parametrize(
    "table",
    [
        HOURS,
        TOKEN_DAYS,
        source_statistics.HOURS,
        source_statistics.RESULTS,
        source_statistics.TOKEN_DAYS,
    ],
)
def test_every_column_of_a_buffered_table_is_written(table: Any) -> None:
    assert {field.attname for field in table.model._meta.concrete_fields} == {"id", *table.key, *table.values}


@pytest.mark.django_db(transaction=True)
def test_concurrent_flushes_of_the_same_rows_lose_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Each counts in another order: if rows were locked in that order, two processes would deadlock."""
    processes, rounds, rows = 3, 20, 40  # the pool has 4 connections, one is the test's own
    barrier = threading.Barrier(processes)

    def process(order: Sequence[int]) -> None:
        process_buffer = WriteBuffer(flush_interval_s=None)
        try:
            for _ in range(rounds):
                for row in order:
                    add(process_buffer, f"{row:02}")
                barrier.wait(30)
                process_buffer.flush()
        except BaseException:
            barrier.abort()  # only then: after the last round another may not have left the barrier yet
            raise
        finally:
            connection.close()

    orders = [range(rows), range(rows - 1, -1, -1), [*range(0, rows, 2), *range(1, rows, 2)]]
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(process, orders))
    assert counted() == [(f"{row:02}", processes * rounds) for row in range(rows)]
    assert caplog.messages == []


@pytest.mark.django_db(transaction=True)
def test_refused_rows_are_kept_and_logged_once(process_buffer: WriteBuffer, caplog: pytest.LogCaptureFixture) -> None:
    with missing_table():
        add(process_buffer)
        process_buffer.flush()
        add(process_buffer)
        add(process_buffer, "late")
        process_buffer.flush()
    assert [message.split(",")[0] for message in caplog.messages] == ["accounts_searchhour: rows are kept in memory"]
    process_buffer.flush()
    process_buffer.flush()
    assert counted() == [("found_one", 2), ("late", 1)]
    assert caplog.messages[1:] == ["accounts_searchhour: rows are written again"]


@pytest.mark.django_db(transaction=True)
def test_a_refused_table_does_not_hold_up_the_others(process_buffer: WriteBuffer) -> None:
    token = tokens.issue(name="pbx", initial_credits=0, actor="test").token
    add(process_buffer)
    process_buffer.add((TOKEN_DAYS, (token.pk, "2026-03-01", "found_one"), [(0, 1)]))
    with missing_table():
        process_buffer.flush()
    assert token.days.get().count == 1
    process_buffer.flush()
    assert counted() == [("found_one", 1)]


@pytest.mark.django_db(transaction=True)
def test_new_rows_survive_an_outage_in_their_order(process_buffer: WriteBuffer) -> None:
    with missing_table():
        for outcome in ("2", "1"):
            add_new(process_buffer, outcome)
            process_buffer.flush()
    add_new(process_buffer, "3")
    process_buffer.flush()
    assert list(SearchHour.objects.order_by("pk").values_list("outcome", flat=True)) == ["2", "1", "3"]


@pytest.mark.django_db
@pytest.mark.parametrize("add", [add, add_new])
def test_batches_before_a_failure_are_not_written_twice(
    process_buffer: WriteBuffer, monkeypatch: pytest.MonkeyPatch, add: Any
) -> None:
    def fail_the_second(statement: str, parameters: Sequence[Any]) -> Any:
        inserts.append(statement)
        if len(inserts) == 2:
            raise OperationalError
        return fetch(statement, parameters)

    fetch, inserts = db.fetch, list[str]()
    monkeypatch.setattr(db, "fetch", fail_the_second)
    monkeypatch.setattr(write_buffer, "BATCH_ROWS", 2)
    for row in range(5):
        add(process_buffer, str(row))
    process_buffer.flush()
    assert counted() == [("0", 1), ("1", 1)]
    process_buffer.flush()
    assert counted() == [(str(row), 1) for row in range(5)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("add", [add, add_new])
def test_the_oldest_rows_are_dropped_with_one_warning(
    process_buffer: WriteBuffer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, add: Any
) -> None:
    monkeypatch.setattr(write_buffer, "MAX_ROWS", 3)
    with missing_table():
        for row in range(8):
            add(process_buffer, str(row))
            if row == 5:
                process_buffer.flush()
        process_buffer.flush()
    assert [message for message in caplog.messages if "dropped" in message] == [
        "accounts_searchhour: 3 rows wait to be written, the oldest are dropped"
    ]
    process_buffer.flush()
    assert counted() == [("5", 1), ("6", 1), ("7", 1)]
    add(process_buffer, "later")
    process_buffer.flush()
    assert counted() == [("5", 1), ("6", 1), ("7", 1), ("later", 1)]


@pytest.mark.django_db(transaction=True)
def test_refused_values_do_not_block_later_rows(process_buffer: WriteBuffer, caplog: pytest.LogCaptureFixture) -> None:
    SearchHour.objects.create(hour=HOUR, outcome="twice", count=1)
    add_new(process_buffer, "twice")  # breaks the unique constraint
    add_new(process_buffer, "other")
    process_buffer.flush()
    add_new(process_buffer, "later")
    process_buffer.flush()
    assert counted() == [("later", 1), ("twice", 1)]
    assert "accounts_searchhour: 2 rows dropped, the database refused their values" in caplog.text


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's driver converts parameters in C")
def test_postgresql_gets_a_batch_as_one_parameter(process_buffer: WriteBuffer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    original = db.fetch

    def fetch(sql: str, parameters: Sequence[Any]) -> Any:
        sent.append(len(parameters))
        return original(sql, parameters)

    monkeypatch.setattr(db, "fetch", fetch)
    for outcome in ("one", "other"):
        add(process_buffer, outcome)
    process_buffer.flush()
    assert sent == [1]
    assert counted() == [("one", 1), ("other", 1)]


# --- The thread --------------------------------------------------------------------------------------------------


class ObservedBuffer(WriteBuffer):
    """`had_connection`: whether one was open before each flush, put there after it."""

    def __init__(self, flush_interval_s: float) -> None:
        super().__init__(flush_interval_s)
        self.had_connection: SimpleQueue[bool] = SimpleQueue()

    def flush(self) -> None:
        had_connection = connection.connection is not None
        super().flush()
        self.had_connection.put(had_connection)

    def wait(self) -> None:
        """Wait for a flush that began after this call: one may be running."""
        finished = self.had_connection.qsize()
        assert not any(self.had_connection.get(timeout=30) for _ in range(finished + 2))


@pytest.mark.django_db(transaction=True)
def test_thread_flushes_regularly_and_keeps_no_connection() -> None:
    process_buffer = ObservedBuffer(flush_interval_s=0.01)
    try:
        for expected in (1, 2):
            add(process_buffer)
            process_buffer.wait()
            assert counted() == [("found_one", expected)]
    finally:
        process_buffer.close()


@pytest.mark.django_db(transaction=True)
def test_close_returns_while_the_database_refuses() -> None:
    process_buffer = WriteBuffer(flush_interval_s=3600)
    add(process_buffer)
    with missing_table():
        assert process_buffer.close()
    assert counted() == []


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
