"""Source statistics: counts of answers by outcome, durations, and the reports."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from core import write_buffer
from core.retention import KEPT_DAYS
from core.write_buffer import WriteBuffer
from lookup.answers import REFUSALS, Failed, Found, NotFound, SourceCall
from lookup.search import RULES_SOURCE
from monitoring import source_statistics
from monitoring.models import SourceHour, SourceResult, TokenSourceDay
from monitoring.source_statistics import BUCKETS, percentile
from phonebook.models import NumberRule
from tests.api import NUMBER, Integrator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FOUND = Found(spam=False)
LATE = Failed("late")


def count(slot: str = "source_a", **given: Any) -> None:
    default = {"connector": "twilio", "answer": FOUND, "elapsed_s": 0.02}
    source_statistics.count(slot, [SourceCall(**{**default, **given})])


def counted(*columns: str) -> list[tuple[Any, ...]]:
    return list(SourceHour.objects.order_by(*columns).values_list(*columns, "count"))


def only_row() -> dict[str, Any]:
    return dict(SourceHour.objects.values().get())


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
    process_buffer: WriteBuffer, elapsed_s: float, bucket: str, total_us: int
) -> None:
    count(elapsed_s=elapsed_s)
    process_buffer.flush()
    row = only_row()
    assert [name for name in BUCKETS if row[name]] == [bucket]
    assert (row[bucket], row["count"], row["total_us"]) == (1, 1, total_us)


@pytest.mark.django_db
def test_each_distinct_key_has_its_own_row(process_buffer: WriteBuffer, at: Callable[[datetime], None]) -> None:
    at(NOON)
    for different in ({}, {"slot": "source_b"}, {"connector": "telnyx"}, {"answer": LATE}):
        count(**different)
    at(NOON.replace(minute=59, second=59))
    count()
    at(NOON.replace(hour=13))
    count()
    process_buffer.flush()
    assert counted("hour", "slot", "connector", "outcome") == [
        (NOON, "source_a", "telnyx", "found", 1),
        (NOON, "source_a", "twilio", "found", 2),
        (NOON, "source_a", "twilio", "late", 1),
        (NOON, "source_b", "twilio", "found", 1),
        (NOON.replace(hour=13), "source_a", "twilio", "found", 1),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["failed for 493023125042", "", "x" * 33, "a\x00b", "\ud800", "späte"])
def test_outcome_that_is_no_word_is_stored_as_error(process_buffer: WriteBuffer, text: str) -> None:
    count(answer=Failed(text))
    process_buffer.flush()
    assert counted("outcome") == [("error", 1)]


@pytest.mark.parametrize(
    "nonsense",
    [{"answer": Failed(reason=[])}, {"connector": None}, {"elapsed_s": math.nan}, {"slot": []}],  # type: ignore[arg-type]
)
def test_count_never_raises(
    process_buffer: WriteBuffer, nonsense: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    count(**nonsense)
    assert caplog.messages[0].startswith("statistics: not counted (")


@pytest.mark.django_db
def test_the_last_answer_and_the_last_failures_are_kept(
    process_buffer: WriteBuffer, at: Callable[[datetime], None]
) -> None:
    calls: list[dict[str, Any]] = [
        {"answer": FOUND},
        {"answer": Failed("auth", "Check the key.")},
        {"answer": Failed("auth", "Check the key."), "joined": True},
        {"answer": NotFound()},
        {"answer": LATE},
        {"connector": "telnyx", "answer": LATE},
    ]
    for second, what in enumerate(calls):
        at(NOON + timedelta(seconds=second))
        count(**what)
        if second % 2:
            process_buffer.flush()
    at(NOON)  # a process whose clock is behind, or that was late to write
    count(answer=LATE)
    process_buffer.flush()
    answered, _, _, failures = source_statistics.last_results(NOON)
    assert answered == {"twilio": NOON + timedelta(seconds=3)}
    assert [(row.connector, row.reason, row.hint, row.at) for row in failures] == [
        ("telnyx", "late", "", NOON + timedelta(seconds=5)),
        ("twilio", "late", "", NOON + timedelta(seconds=4)),
        ("twilio", "auth", "Check the key.", NOON + timedelta(seconds=2)),
    ]
    assert source_statistics.last_results(NOON + timedelta(seconds=5)) == (answered, {}, {}, failures[:1])


WITHOUT_A_CALL: list[dict[str, Any]] = [
    {"answer": FOUND, "cached": True},
    {"answer": NotFound(), "joined": True},
    {"answer": Failed("breaker")},
    {"answer": Failed("breaker"), "joined": True},
    {"answer": Failed("busy")},
    {"answer": Failed("no_time")},
]


@pytest.mark.django_db
def test_calls_to_vendors_are_counted_for_their_token(
    process_buffer: WriteBuffer, at: Callable[[datetime], None]
) -> None:
    """Those that the vendor may bill: as many as the report of sources has."""
    at(NOON)
    called = SourceCall("twilio", LATE, 0.1)
    free = [SourceCall("twilio", **{"elapsed_s": 0.0, **call}) for call in WITHOUT_A_CALL]
    joined = SourceCall("twilio", LATE, 0.1, joined=True)
    refused = [SourceCall("twilio", Failed(reason), 0.1) for reason in REFUSALS]
    others = [SourceCall("directory", FOUND, 0.1), SourceCall(RULES_SOURCE, FOUND, None)]
    for token_id in (7, 7, 8, None):
        source_statistics.count("source_a", [called, joined, *free, *refused, *others], token_id)
    source_statistics.count("source_b", [called], 8)
    process_buffer.flush()
    columns = ("token_id", "day", "slot", "connector", "calls")
    assert list(TokenSourceDay.objects.order_by("token_id", "slot").values_list(*columns)) == [
        (7, NOON.date(), "source_a", "twilio", 2),
        (8, NOON.date(), "source_a", "twilio", 1),
        (8, NOON.date(), "source_b", "twilio", 1),
    ]
    usages = source_statistics.usages(NOON, "slot", "connector")
    source_a, source_b = usages["source_a", "twilio"], usages["source_b", "twilio"]
    assert (source_a.billable, source_b.billable) == (4, 1)
    assert source_a.calls == 4 * (1 + len(refused))


def test_search_counts_its_calls_for_its_token(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.RemoteKnows"
    for _ in range(2):  # the second answer is cached
        integrator.search()
    write_buffer.process_buffer.flush()
    rows = TokenSourceDay.objects.order_by("slot").values_list("token", "slot", "calls")
    assert list(rows) == [(integrator.token.pk, "source_a", 1)]


@pytest.mark.django_db
@pytest.mark.parametrize("call", WITHOUT_A_CALL)
def test_outcomes_without_a_call_are_not_results(process_buffer: WriteBuffer, call: dict[str, Any]) -> None:
    count(**call)
    count(connector=RULES_SOURCE, elapsed_s=None)
    process_buffer.flush()
    assert not SourceResult.objects.exclude(reason="breaker").exists()


@pytest.mark.django_db
def test_a_hint_keeps_no_number_and_fits_its_column(process_buffer: WriteBuffer) -> None:
    for hint in ("no route to 493023125042 from +12025550143", "x" * 900, "a\x00b\ud800\nc"):
        count(answer=Failed("down", hint))
    process_buffer.flush()
    hints = set(SourceResult.objects.values_list("hint", flat=True))
    assert hints == {"no route to … from +…", "x" * 200, "ab c"}


@pytest.mark.django_db
def test_prune_deletes_rows_older_than_400_days() -> None:
    for days in (KEPT_DAYS - 1, KEPT_DAYS + 1):
        at = timezone.now() - timedelta(days=days)
        SourceHour.objects.create(hour=at, slot="source_a", connector=str(days))
        SourceResult.objects.create(connector=str(days), reason="late", last_ms=round(at.timestamp() * 1000))
        TokenSourceDay.objects.create(token_id=1, day=at.date(), slot="source_a", connector=str(days))
    assert source_statistics.prune() == 3
    kept = [model.objects.get().connector for model in (SourceHour, SourceResult, TokenSourceDay)]
    assert kept == [str(KEPT_DAYS - 1)] * 3


def test_a_search_keeps_why_a_source_failed(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "tests.connectors.Raises", "tests.connectors.RemoteFails"
    integrator.search()
    write_buffer.process_buffer.flush()
    failed = SourceResult.objects.order_by("connector").values_list("connector", "reason", "hint")
    assert list(failed) == [
        ("tests.connectors.Raises", "error", "it raised RuntimeError"),
        ("tests.connectors.RemoteFails", "down", ""),
    ]


def test_a_rule_counts_in_the_slots_where_it_supplied_a_field(integrator: Integrator) -> None:
    NumberRule.objects.create(number=int(NUMBER), spam=True)
    integrator.search()
    write_buffer.process_buffer.flush()
    (row,) = SourceHour.objects.filter(connector=RULES_SOURCE).values_list("slot", "outcome", "count")
    assert row == ("source_b", "found", 1)
    NumberRule.objects.update(name="Alice")
    integrator.search()
    write_buffer.process_buffer.flush()
    rows = SourceHour.objects.filter(connector=RULES_SOURCE).order_by("slot").values_list("slot", "count")
    assert list(rows) == [("source_a", 1), ("source_b", 2)]


# --- Reading -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_shared_failure_is_not_counted_as_a_call(process_buffer: WriteBuffer) -> None:
    """Else a call that both slots share would be paid for twice."""
    count(answer=LATE, elapsed_s=1.0)
    for joined, reasons in ((True, ("late", "error")), (False, ("busy", "breaker", "no_time"))):
        for reason in reasons:
            count(answer=Failed(reason), elapsed_s=1.0, joined=joined)
    process_buffer.flush()
    usages = source_statistics.usages(NOON.replace(year=2020), "slot", "connector")
    source = usages["source_a", "twilio"]
    assert (source.calls, source.total_us) == (1, 1_000_000)
    assert source.failures == {"breaker": 1, "busy": 1, "late": 2, "no_time": 1, "error": 1}


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
