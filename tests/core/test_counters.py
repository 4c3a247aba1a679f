"""Counts in memory are written to their table once, whatever happens to the database, and never fail a caller."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import F

from accounts.models import SearchHour
from accounts.statistics import HOURS, TOKEN_DAYS
from core import counters, db
from core.counters import Counters, log_exceptions

HOUR = 500_000
BEGINS = datetime.fromtimestamp(HOUR * 3600, UTC)


def add(process_counters: Counters, outcome: str = "found_one", how_many: int = 1) -> None:
    process_counters.add(HOURS, (HOUR, outcome), ((0, how_many),))


def counted() -> list[tuple[Any, ...]]:
    return list(SearchHour.objects.order_by("outcome").values_list("outcome", "count"))


@contextmanager
def missing_table() -> Iterator[None]:
    """The database answers with an error, as before `migrate`."""

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
def test_flush_writes_what_the_orm_would(process_counters: Counters) -> None:
    for how_many in (3, 4, 9_000_000_000):
        add(process_counters, "written", how_many)
        process_counters.flush()
        SearchHour.objects.get_or_create(hour=BEGINS, outcome="expected")
        SearchHour.objects.filter(outcome="expected").update(count=F("count") + how_many)
    expected, written = SearchHour.objects.order_by("outcome").values()
    assert {**written, "id": 0, "outcome": ""} == {**expected, "id": 0, "outcome": ""}
    assert written["count"] == 9_000_000_007


@pytest.mark.parametrize("table", [HOURS, TOKEN_DAYS])
def test_every_column_of_a_counter_table_is_written(table: Any) -> None:
    assert {field.attname for field in table.model._meta.concrete_fields} == {"id", *table.key, *table.values}


@pytest.mark.django_db(transaction=True)
def test_concurrent_flushes_of_the_same_rows_lose_nothing() -> None:
    """Each counts in another order: if rows were locked in that order, two processes would deadlock."""
    processes, rounds, rows = 3, 20, 40  # the pool has 4 connections, one is the test's own
    barrier = threading.Barrier(processes)

    def process(order: Sequence[int]) -> None:
        process_counters = Counters(flush_interval_s=None)
        try:
            for _ in range(rounds):
                for row in order:
                    add(process_counters, f"{row:02}")
                barrier.wait(30)
                process_counters.flush()
                assert process_counters.pending_rows == 0
        except BaseException:
            barrier.abort()  # only then: after the last round another may not have left the barrier yet
            raise
        finally:
            connection.close()

    orders = [range(rows), range(rows - 1, -1, -1), [*range(0, rows, 2), *range(1, rows, 2)]]
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(process, orders))
    assert counted() == [(f"{row:02}", processes * rounds) for row in range(rows)]


@pytest.mark.django_db
def test_refused_counts_are_kept_and_logged_once(process_counters: Counters, caplog: pytest.LogCaptureFixture) -> None:
    with missing_table():
        add(process_counters)
        process_counters.flush()
        add(process_counters)
        add(process_counters, "late")
        process_counters.flush()
    assert [message.split(":")[0] for message in caplog.messages] == ["statistics are kept in memory"]
    process_counters.flush()
    process_counters.flush()
    assert counted() == [("found_one", 2), ("late", 1)]
    assert caplog.messages[1:] == ["statistics are written again"]


@pytest.mark.django_db
def test_batches_before_a_failure_are_not_written_twice(
    process_counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_the_second(statement: str, parameters: Sequence[Any]) -> None:
        inserts.append(statement)
        if len(inserts) == 2:
            raise OperationalError
        run(statement, parameters)

    run, inserts = db.run, list[str]()
    monkeypatch.setattr(db, "run", fail_the_second)
    monkeypatch.setattr(counters, "BATCH_ROWS", 2)
    for row in range(5):
        add(process_counters, str(row))
    process_counters.flush()
    assert counted() == [("0", 1), ("1", 1)]
    process_counters.flush()
    assert counted() == [(str(row), 1) for row in range(5)]


@pytest.mark.django_db
def test_memory_is_bounded_while_the_database_is_unavailable(
    process_counters: Counters, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(counters, "MAX_ROWS", 3)
    with missing_table():
        for _ in range(2):
            for row in range(5):
                add(process_counters, str(row))
            process_counters.flush()
    assert process_counters.pending_rows == 3
    assert sum("further ones are dropped" in message for message in caplog.messages) == 1
    process_counters.flush()
    add(process_counters, "4")
    process_counters.flush()
    assert counted() == [("0", 2), ("1", 2), ("2", 2), ("4", 1)]


def test_counting_errors_are_logged_by_type_only(caplog: pytest.LogCaptureFixture) -> None:
    @log_exceptions
    def count(number: str) -> None:
        raise ValueError(number)

    count("493023125042")
    assert caplog.messages == ["statistics: not counted (ValueError)"]


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no prepared statements in a session")
def test_statistics_statements_are_not_prepared(process_counters: Counters) -> None:
    def prepared() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_prepared_statements")
            return int(cursor.fetchone()[0])

    before = prepared()
    for _ in range(8):
        add(process_counters)
        process_counters.flush()
    assert prepared() == before
    assert connection.connection.prepare_threshold is None  # or psycopg keeps the last hundred statements' texts
    assert counted() == [("found_one", 8)]


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's driver converts parameters in C")
def test_postgresql_gets_a_batch_as_one_parameter(process_counters: Counters, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    original = db.run

    def run(sql: str, parameters: Sequence[Any]) -> None:
        sent.append(len(parameters))
        original(sql, parameters)

    monkeypatch.setattr(db, "run", run)
    for outcome in ("one", "other"):
        add(process_counters, outcome)
    process_counters.flush()
    assert sent == [1]
    assert counted() == [("one", 1), ("other", 1)]


# --- The thread --------------------------------------------------------------------------------------------------


class ObservedCounters(Counters):
    """Notifies after each flush, and records whether a connection was open before it."""

    def __init__(self, flush_interval_s: float) -> None:
        super().__init__(flush_interval_s)
        self.flushed = threading.Condition()
        self.had_connection: list[bool] = []

    def flush(self) -> None:
        had_connection = connection.connection is not None
        super().flush()
        with self.flushed:
            self.had_connection.append(had_connection)
            self.flushed.notify_all()

    def wait(self) -> None:
        """Wait for a flush that began after this call: one may be running."""
        with self.flushed:
            enough = len(self.had_connection) + 2
            assert self.flushed.wait_for(lambda: len(self.had_connection) >= enough, timeout=30)


@pytest.mark.django_db(transaction=True)
def test_thread_flushes_regularly_and_keeps_no_connection() -> None:
    process_counters = ObservedCounters(flush_interval_s=0.01)
    try:
        for expected in (1, 2):
            add(process_counters)
            process_counters.wait()
            assert counted() == [("found_one", expected)]
    finally:
        process_counters.close()
    assert not any(process_counters.had_connection)


@pytest.mark.django_db(transaction=True)
def test_close_flushes_at_once() -> None:
    process_counters = Counters(flush_interval_s=3600)
    add(process_counters)
    add(process_counters)
    process_counters.close()
    assert counted() == [("found_one", 2)]


@pytest.mark.django_db(transaction=True)
def test_close_returns_while_the_database_refuses() -> None:
    process_counters = Counters(flush_interval_s=3600)
    add(process_counters)
    with missing_table():
        assert process_counters.close()
    assert counted() == []
