"""What is counted in memory gets into its table once, whatever becomes of the database, and nobody is the worse for
it."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from accounts import recorder as recorder_module
from accounts import sql
from accounts.activity import HOURS, TOKEN_DAYS
from accounts.models import SearchHour
from accounts.recorder import Recorder, never_raises

HOUR = 500_000
BEGINS = datetime.fromtimestamp(HOUR * 3600, UTC)


def add(recorder: Recorder, outcome: str = "found_one", how_many: int = 1) -> None:
    recorder.add(HOURS, (HOUR, outcome), ((0, how_many),))


def counted() -> list[tuple[Any, ...]]:
    return list(SearchHour.objects.order_by("outcome").values_list("outcome", "count"))


@contextmanager
def table_away() -> Iterator[None]:
    """The database answers and refuses, as before `migrate`."""

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
def test_the_statement_does_what_the_orm_would(recorder: Recorder) -> None:
    for how_many in (3, 4, 9_000_000_000):
        add(recorder, "written", how_many)
        recorder.flush()
        SearchHour.objects.get_or_create(hour=BEGINS, outcome="expected")
        SearchHour.objects.filter(outcome="expected").update(count=F("count") + how_many)
    expected, written = SearchHour.objects.order_by("outcome").values()
    assert {**written, "id": 0, "outcome": ""} == {**expected, "id": 0, "outcome": ""}
    assert written["count"] == 9_000_000_007


@pytest.mark.parametrize("table", [HOURS, TOKEN_DAYS])
def test_a_table_has_no_column_that_is_not_written(table: Any) -> None:
    assert {field.attname for field in table.model._meta.concrete_fields} == {"id", *table.key, *table.sums}


@pytest.mark.django_db(transaction=True)
def test_processes_that_add_to_the_same_rows_at_once_lose_nothing() -> None:
    """Each counts in another order: rows that were locked in that order would make two wait for each other."""
    processes, rounds, rows = 3, 20, 40  # the pool has 4 connections, one is the test's own
    barrier = threading.Barrier(processes)

    def process(order: Sequence[int]) -> None:
        recorder = Recorder(every_s=None)
        try:
            for _ in range(rounds):
                for row in order:
                    add(recorder, f"{row:02}")
                barrier.wait(30)
                recorder.flush()
                assert not recorder._rows, "the database refused"
        finally:
            barrier.abort()
            connection.close()

    orders = [range(rows), range(rows - 1, -1, -1), [*range(0, rows, 2), *range(1, rows, 2)]]
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(process, orders))
    assert counted() == [(f"{row:02}", processes * rounds) for row in range(rows)]


@pytest.mark.django_db
def test_what_the_database_refuses_is_kept_and_told_once(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    with table_away():
        add(recorder)
        recorder.flush()
        add(recorder)
        add(recorder, "late")
        recorder.flush()
    assert [message.split(":")[0] for message in caplog.messages] == ["statistics are kept in memory"]
    recorder.flush()
    recorder.flush()
    assert counted() == [("found_one", 2), ("late", 1)]
    assert caplog.messages[1:] == ["statistics are written again"]


@pytest.mark.django_db
def test_what_was_written_before_the_database_failed_is_not_written_twice(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_the_second(statement: str, parameters: Sequence[Any]) -> None:
        inserts.append(statement)
        if len(inserts) == 2:
            raise OperationalError
        run(statement, parameters)

    run, inserts = sql.run, list[str]()
    monkeypatch.setattr(sql, "run", fail_the_second)
    monkeypatch.setattr(recorder_module, "CHUNK_ROWS", 2)
    for row in range(5):
        add(recorder, str(row))
    recorder.flush()
    assert counted() == [("0", 1), ("1", 1)]
    recorder.flush()
    assert counted() == [(str(row), 1) for row in range(5)]


@pytest.mark.django_db
def test_memory_is_bounded_while_the_database_is_away(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_ROWS", 3)
    with table_away():
        for _ in range(2):
            for row in range(5):
                add(recorder, str(row))
            recorder.flush()
    assert len(recorder._rows) == 3
    assert sum("no more are kept" in message for message in caplog.messages) == 1
    recorder.flush()
    add(recorder, "4")
    recorder.flush()
    assert counted() == [("0", 2), ("1", 2), ("2", 2), ("4", 1)]


def test_what_cannot_be_counted_is_logged_by_its_type_alone(caplog: pytest.LogCaptureFixture) -> None:
    @never_raises
    def count(number: str) -> None:
        raise ValueError(number)

    count("493023125042")
    assert caplog.messages == ["statistics: not counted (ValueError)"]


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="of psycopg and of PostgreSQL's sessions")
def test_neither_the_connection_nor_its_session_keeps_what_was_written(recorder: Recorder) -> None:
    def prepared() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_prepared_statements")
            return int(cursor.fetchone()[0])

    before = prepared()
    for _ in range(8):
        add(recorder)
        recorder.flush()
    assert prepared() == before
    assert connection.connection.prepare_threshold is None  # or psycopg keeps the last hundred statements' texts
    assert counted() == [("found_one", 8)]


# --- The thread --------------------------------------------------------------------------------------------------


class Watched(Recorder):
    """Tells when it has flushed, and whether it still had a connection when it began to."""

    def __init__(self, every_s: float) -> None:
        super().__init__(every_s)
        self.flushed = threading.Condition()
        self.held: list[bool] = []

    def flush(self) -> None:
        held = connection.connection is not None
        super().flush()
        with self.flushed:
            self.held.append(held)
            self.flushed.notify_all()

    def wait(self) -> None:
        """For a flush that began after now: one may be on its way."""
        with self.flushed:
            enough = len(self.held) + 2
            assert self.flushed.wait_for(lambda: len(self.held) >= enough, timeout=30)


@pytest.mark.django_db(transaction=True)
def test_a_thread_writes_now_and_then_and_keeps_no_connection() -> None:
    recorder = Watched(every_s=0.01)
    try:
        for expected in (1, 2):
            add(recorder)
            recorder.wait()
            assert counted() == [("found_one", expected)]
    finally:
        recorder.close()
    assert not any(recorder.held)


@pytest.mark.django_db(transaction=True)
def test_the_end_writes_the_rest_at_once() -> None:
    recorder = Recorder(every_s=3600)
    add(recorder)
    add(recorder)
    recorder.close()
    assert counted() == [("found_one", 2)]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_holds_up_no_end() -> None:
    recorder = Recorder(every_s=3600)
    add(recorder)
    with table_away():
        recorder.close()
    assert recorder._thread is not None
    assert not recorder._thread.is_alive()
    assert counted() == []
