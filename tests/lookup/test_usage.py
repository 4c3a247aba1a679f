"""Statistics: every answer is counted once, whatever becomes of the database, and no search is the worse for it."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.models import F
from hypothesis import given
from hypothesis import strategies as st

from lookup import usage
from lookup.models import Usage
from lookup.usage import BUCKETS, Recorder, percentile
from tests.api import Integrator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def recorder() -> Recorder:
    """Writes only when it is told to."""
    return Recorder(every_s=None)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """`at(when)`: what is counted is counted then."""

    def set_clock(when: datetime) -> None:
        monkeypatch.setattr(usage, "time", SimpleNamespace(time=when.timestamp))

    return set_clock


def count(recorder: Recorder, **given: Any) -> None:
    default = {"token_id": 7, "slot": "source_a", "connector": "twilio", "outcome": "found", "elapsed_s": 0.02}
    recorder.count(**{**default, **given})


def counted(*columns: str) -> list[tuple[Any, ...]]:
    return list(Usage.objects.order_by(*columns).values_list(*columns, "count"))


def only_row() -> dict[str, Any]:
    return dict(Usage.objects.values().get())


@contextmanager
def table_away() -> Iterator[None]:
    """The database answers and refuses, as before `migrate`."""

    def rename(old: str, new: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename("lookup_usage", "elsewhere")
    try:
        yield
    finally:
        rename("elsewhere", "lookup_usage")


# --- Counting ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("elapsed_s", "bucket", "total_us"),
    [
        (0.0, "ms_1", 0),
        (-0.5, "ms_1", 0),
        (0.001, "ms_1", 1000),
        (0.001001, "ms_5", 1001),
        (0.25, "ms_250", 250_000),
        (2.5, "ms_2500", 2_500_000),
        (2.500001, "ms_more", 2_500_001),
        (86_400.0, "ms_more", 86_400_000_000),
    ],
)
def test_a_time_falls_into_the_first_bucket_that_holds_it(
    recorder: Recorder, elapsed_s: float, bucket: str, total_us: int
) -> None:
    count(recorder, elapsed_s=elapsed_s)
    recorder.flush()
    row = only_row()
    assert [name for name in BUCKETS if row[name]] == [bucket]
    assert (row[bucket], row["count"], row["total_us"]) == (1, 1, total_us)


@pytest.mark.django_db
def test_an_event_has_no_time(recorder: Recorder) -> None:
    count(recorder, token_id=0, slot="", outcome="breaker_opened", elapsed_s=None)
    recorder.flush()
    row = only_row()
    assert (row["token_id"], row["slot"], row["count"], row["total_us"]) == (0, "", 1, 0)
    assert [row[name] for name in BUCKETS] == [0] * len(BUCKETS)


@pytest.mark.django_db
def test_what_differs_in_anything_is_counted_apart(recorder: Recorder, at: Callable[[datetime], None]) -> None:
    at(NOON)
    for different in ({}, {"token_id": 8}, {"slot": "source_b"}, {"connector": "telnyx"}, {"outcome": "late"}):
        count(recorder, **different)
    at(NOON.replace(minute=59, second=59))
    count(recorder)
    at(NOON.replace(hour=13))
    count(recorder)
    recorder.flush()
    assert counted("hour", "token_id", "slot", "connector", "outcome") == [
        (NOON, 7, "source_a", "telnyx", "found", 1),
        (NOON, 7, "source_a", "twilio", "found", 2),
        (NOON, 7, "source_a", "twilio", "late", 1),
        (NOON, 7, "source_b", "twilio", "found", 1),
        (NOON, 8, "source_a", "twilio", "found", 1),
        (NOON.replace(hour=13), 7, "source_a", "twilio", "found", 1),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["failed for 493023125042", "", "x" * 33, "a\x00b", "\ud800", "späte"])
def test_an_outcome_that_is_no_word_is_an_error_and_nothing_else_is_kept_of_it(recorder: Recorder, text: str) -> None:
    count(recorder, outcome=text)
    recorder.flush()
    assert counted("outcome") == [("error", 1)]


@pytest.mark.parametrize("nonsense", [{"outcome": None}, {"connector": None}, {"elapsed_s": math.nan}, {"slot": []}])
def test_what_cannot_be_counted_raises_nothing(
    recorder: Recorder, nonsense: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    count(recorder, **nonsense)
    assert caplog.messages[0].startswith("statistics: not counted (")


def test_a_search_counts_each_source_that_it_asks_and_runs_no_statement_for_it(integrator: Integrator) -> None:
    integrator.search()
    integrator.search()
    assert not Usage.objects.exists()
    usage.flush()
    knows, token = "tests.connectors.Knows", integrator.token.pk
    assert counted("slot", "connector", "outcome", "token_id") == [
        ("source_a", knows, "found", token, 2),
        ("source_b", knows, "found", token, 2),
    ]


# --- Writing -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_the_statement_does_what_the_orm_would(recorder: Recorder, at: Callable[[datetime], None]) -> None:
    def by_orm(**sums: int) -> None:
        key: Any = {"hour": NOON, "token_id": 1, "slot": "source_a", "connector": "twilio", "outcome": "found"}
        row, _ = Usage.objects.get_or_create(**key)
        Usage.objects.filter(pk=row.pk).update(**{name: F(name) + more for name, more in sums.items()})

    at(NOON)
    for elapsed_us, bucket in ((3_000, "ms_5"), (4_000, "ms_5"), (9_000_000, "ms_more")):
        count(recorder, token_id=2, elapsed_s=elapsed_us / 1_000_000)
        recorder.flush()
        by_orm(count=1, total_us=elapsed_us, **{bucket: 1})
    expected, written = Usage.objects.order_by("token_id").values()
    assert {**written, "id": 0, "token_id": 0} == {**expected, "id": 0, "token_id": 0}
    assert {field.attname for field in Usage._meta.concrete_fields} == {"id", *usage._KEY, *usage._SUMS}


@pytest.mark.django_db(transaction=True)
def test_processes_that_add_to_the_same_rows_at_once_lose_nothing() -> None:
    """Each counts in another order: rows that were locked in that order would make two wait for each other."""
    processes, rounds, tokens = 3, 20, 40  # the pool has 4 connections, one is the test's own
    barrier = threading.Barrier(processes)

    def process(order: Sequence[int]) -> None:
        recorder = Recorder(every_s=None)
        try:
            for _ in range(rounds):
                for token_id in order:
                    count(recorder, token_id=token_id)
                barrier.wait(30)
                recorder.flush()
                assert not recorder._rows, "the database refused"
        finally:
            barrier.abort()
            connection.close()

    orders = [range(tokens), range(tokens - 1, -1, -1), [*range(0, tokens, 2), *range(1, tokens, 2)]]
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(process, orders))
    assert counted("token_id") == [(token_id, processes * rounds) for token_id in range(tokens)]


@pytest.mark.django_db
def test_what_the_database_refuses_is_kept_and_told_once(recorder: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    with table_away():
        count(recorder)
        recorder.flush()
        count(recorder)
        count(recorder, outcome="late")
        recorder.flush()
    assert [message.split(":")[0] for message in caplog.messages] == ["statistics are kept in memory"]
    recorder.flush()
    recorder.flush()
    assert counted("outcome") == [("found", 2), ("late", 1)]
    assert caplog.messages[1:] == ["statistics are written again"]


@pytest.mark.django_db
def test_what_was_written_before_the_database_failed_is_not_written_twice(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_the_second(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("INSERT"):
            inserts.append(sql)
            if len(inserts) == 2:
                raise OperationalError
        return execute(sql, params, many, context)

    inserts: list[str] = []
    monkeypatch.setattr(usage, "CHUNK_ROWS", 2)
    for token_id in range(5):
        count(recorder, token_id=token_id)
    with connection.execute_wrapper(fail_the_second):
        recorder.flush()
    assert counted("token_id") == [(0, 1), (1, 1)]
    recorder.flush()
    assert counted("token_id") == [(token_id, 1) for token_id in range(5)]


@pytest.mark.django_db
def test_memory_is_bounded_while_the_database_is_away(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(usage, "MAX_ROWS", 3)
    with table_away():
        for _ in range(2):
            for token_id in range(5):
                count(recorder, token_id=token_id)
            recorder.flush()
    assert len(recorder._rows) == 3
    assert sum("no more are kept" in message for message in caplog.messages) == 1
    recorder.flush()
    count(recorder, token_id=4)
    recorder.flush()
    assert counted("token_id") == [(0, 2), (1, 2), (2, 2), (4, 1)]


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
            count(recorder)
            recorder.wait()
            assert counted() == [(expected,)]
    finally:
        recorder.close()
    assert not any(recorder.held)


@pytest.mark.django_db(transaction=True)
def test_the_end_writes_the_rest_at_once() -> None:
    recorder = Recorder(every_s=3600)
    count(recorder)
    count(recorder)
    recorder.close()
    assert counted() == [(2,)]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_holds_up_no_end() -> None:
    recorder = Recorder(every_s=3600)
    count(recorder)
    with table_away():
        recorder.close()
    assert recorder._thread is not None
    assert not recorder._thread.is_alive()
    assert counted() == []


# --- Percentiles -------------------------------------------------------------------------------------------------


def buckets(**calls: int) -> list[int]:
    return [calls.get(name, 0) for name in BUCKETS]


@pytest.mark.parametrize(
    ("calls", "share", "expected"),
    [
        (buckets(), 0.5, None),
        (buckets(ms_1=1), 1, 1),
        (buckets(ms_5=4), 0.5, 3),  # half of the way from 1 to 5
        (buckets(ms_100=10), 0.95, 97.5),
        (buckets(ms_1=95, ms_250=5), 0.95, 1),
        (buckets(ms_1=94, ms_250=6), 0.95, 125),  # a sixth of the way from 100 to 250
        (buckets(ms_1=50, ms_more=50), 0.5, 1),
        (buckets(ms_1=49, ms_more=51), 0.5, math.inf),
    ],
)
def test_a_percentile_is_interpolated_within_its_bucket(calls: list[int], share: float, expected: float | None) -> None:
    assert percentile(calls, share) == (expected if expected is None else pytest.approx(expected))


@given(
    elapsed_ms=st.lists(st.floats(0.001, 3000), min_size=1, max_size=200), share=st.sampled_from([0.01, 0.5, 0.95, 1])
)
def test_a_percentile_is_never_in_another_bucket_than_the_true_one(elapsed_ms: list[float], share: float) -> None:
    def bucket(ms: float) -> int:
        return sum(ms > bound for bound in usage.BOUNDS_MS)

    calls = [0] * len(BUCKETS)
    for ms in elapsed_ms:
        calls[bucket(ms)] += 1
    true = sorted(elapsed_ms)[math.ceil(share * len(elapsed_ms)) - 1]
    estimate = percentile(calls, share)
    assert estimate is not None
    assert bucket(estimate) == bucket(true)
