"""Statistics: every answer is counted once, by what it was, and told as percentiles."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from accounts import recorder as recorder_module
from accounts.pruning import KEPT_DAYS
from accounts.recorder import Recorder
from lookup import usage
from lookup.connectors.chain import OPERATOR_RULES
from lookup.models import NumberRule, SourceHour, SourceResult, Usage
from lookup.usage import BUCKETS, Failure, percentile
from tests.api import NUMBER, Integrator

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def count(recorder: Recorder, **given: Any) -> None:
    default = {"token_id": 7, "slot": "source_a", "connector": "twilio", "outcome": "found", "elapsed_s": 0.02}
    usage.count(**{**default, **given}, to=recorder)


def counted(*columns: str) -> list[tuple[Any, ...]]:
    return list(Usage.objects.order_by(*columns).values_list(*columns, "count"))


def only_row() -> dict[str, Any]:
    return dict(Usage.objects.values().get())


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
def test_a_connector_of_any_name_is_written_as_it_is(recorder: Recorder) -> None:
    names = ['a"b', "it's", "back\\slash", "Zoë ☎", "%s", "{}[],", "tab\there"]
    for name in names:
        count(recorder, connector=name)
    recorder.flush()
    assert sorted(Usage.objects.values_list("connector", flat=True)) == sorted(names)


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
    recorder_module.recorder.flush()
    knows, token = "tests.connectors.Knows", integrator.token.pk
    assert counted("slot", "connector", "outcome", "token_id") == [
        ("source_a", knows, "found", token, 2),
        ("source_b", knows, "found", token, 2),
    ]


@pytest.mark.django_db
def test_the_last_answer_and_the_last_failures_are_kept(recorder: Recorder, at: Callable[[datetime], None]) -> None:
    for second, what in enumerate(
        (
            {"outcome": "found"},
            {"outcome": "auth", "hint": "Check the key."},
            {"outcome": "shared_auth", "hint": "Check the key."},
            {"outcome": "not_found"},
            {"outcome": "late"},
            {"connector": "telnyx", "outcome": "late"},
        )
    ):
        at(NOON + timedelta(seconds=second))
        count(recorder, **what)
        if second % 2:
            recorder.flush()
    at(NOON)  # a process whose clock is behind, or that was late to write
    count(recorder, outcome="late")
    recorder.flush()
    answered, failures = usage.results(NOON)
    assert answered == {"twilio": NOON + timedelta(seconds=3)}
    assert failures == [
        Failure("telnyx", "late", "", NOON + timedelta(seconds=5)),
        Failure("twilio", "late", "", NOON + timedelta(seconds=4)),
        Failure("twilio", "auth", "Check the key.", NOON + timedelta(seconds=2)),
    ]
    assert usage.results(NOON + timedelta(seconds=5)) == ({}, failures[:1])


@pytest.mark.django_db
@pytest.mark.parametrize(
    "outcome", ["cached_found", "cached_not_found", "breaker", "shared_breaker", "busy", "no_time"]
)
def test_what_was_no_call_is_no_result(recorder: Recorder, outcome: str) -> None:
    count(recorder, outcome=outcome)
    count(recorder, slot="", outcome="breaker_opened", elapsed_s=None)
    count(recorder, connector=OPERATOR_RULES, elapsed_s=None)
    recorder.flush()
    assert not SourceResult.objects.exists()


@pytest.mark.django_db
def test_a_hint_keeps_no_number_and_fits_its_column(recorder: Recorder) -> None:
    for hint in ("no route to 493023125042 from +12025550143", "x" * 900, "a\x00b\ud800\nc"):
        count(recorder, outcome="down", hint=hint)
    recorder.flush()
    hints = set(SourceResult.objects.values_list("hint", flat=True))
    assert hints == {"no route to … from +…", "x" * 200, "ab c"}


@pytest.mark.django_db
def test_what_is_older_than_400_days_is_deleted(recorder: Recorder) -> None:
    for days in (KEPT_DAYS + 1, KEPT_DAYS - 1):
        last_ms = round((timezone.now() - timedelta(days=days)).timestamp() * 1000)
        SourceResult.objects.create(connector="twilio", reason="late", hint=str(days), last_ms=last_ms)
    assert usage.prune() == 1
    assert SourceResult.objects.get().hint == str(KEPT_DAYS - 1)


def test_a_search_keeps_why_a_source_failed(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "tests.connectors.Raises", "tests.connectors.RemoteFails"
    integrator.search()
    recorder_module.recorder.flush()
    failed = SourceResult.objects.order_by("connector").values_list("connector", "reason", "hint")
    assert list(failed) == [
        ("tests.connectors.Raises", "error", "it raised RuntimeError"),
        ("tests.connectors.RemoteFails", "down", ""),
    ]


def test_a_rule_is_counted_in_the_slots_where_it_supplied_a_field(integrator: Integrator) -> None:
    NumberRule.objects.create(number=int(NUMBER), spam=True)
    integrator.search()
    recorder_module.recorder.flush()
    (row,) = SourceHour.objects.filter(connector=OPERATOR_RULES).values_list("slot", "outcome", "count")
    assert row == ("source_b", "found", 1)
    NumberRule.objects.update(name="Alice")
    integrator.search()
    recorder_module.recorder.flush()
    rows = SourceHour.objects.filter(connector=OPERATOR_RULES).order_by("slot").values_list("slot", "count")
    assert list(rows) == [("source_a", 1), ("source_b", 2)]


@pytest.mark.django_db
def test_the_hours_sums_are_those_of_all_tokens(recorder: Recorder, at: Callable[[datetime], None]) -> None:
    at(NOON)
    for token_id, elapsed_s in ((1, 0.02), (2, 0.02), (2, 3.0)):
        count(recorder, token_id=token_id, elapsed_s=elapsed_s)
    count(recorder, token_id=0, slot="", outcome="breaker_opened", elapsed_s=None)
    recorder.flush()
    event, found = SourceHour.objects.order_by("slot").values()
    assert (event["outcome"], event["count"], event["total_us"]) == ("breaker_opened", 1, 0)
    assert (found["hour"], found["count"], found["total_us"]) == (NOON, 3, 3_040_000)
    assert (found["ms_25"], found["ms_more"]) == (2, 1)


@pytest.mark.django_db
def test_the_migration_sums_up_what_was_counted_before_it(recorder: Recorder) -> None:
    for token_id in range(3):
        count(recorder, token_id=token_id)
        count(recorder, token_id=token_id, outcome="late", slot="source_b", elapsed_s=4.0)
    recorder.flush()
    written = list(SourceHour.objects.order_by("slot").values(*usage._SUMS, "hour", "slot", "connector", "outcome"))
    SourceHour.objects.all().delete()
    import_module("lookup.migrations.0004_source_hours").sum_up_what_was_counted(apps, None)
    again = list(SourceHour.objects.order_by("slot").values(*usage._SUMS, "hour", "slot", "connector", "outcome"))
    assert again == written
    assert [row["count"] for row in again] == [3, 3]


@pytest.mark.parametrize("table", [usage.BY_TOKEN, usage.BY_HOUR])
def test_a_table_has_no_column_that_is_not_written(table: Any) -> None:
    assert {field.attname for field in table.model._meta.concrete_fields} == {"id", *table.key, *table.sums}


# --- Reading -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_what_failed_in_another_searchs_call_is_a_failure_and_no_call(recorder: Recorder) -> None:
    """Else a call that both slots share would be paid for twice."""
    count(recorder, outcome="late", elapsed_s=1.0)
    for outcome in ("shared_late", "shared_error", "busy", "breaker", "no_time"):
        count(recorder, outcome=outcome, elapsed_s=1.0)
    recorder.flush()
    ((source,), _) = usage.summary(NOON.replace(year=2020))
    assert (source.calls, source.total_us) == (1, 1_000_000)
    assert source.failures == {"breaker": 1, "busy": 1, "late": 2, "no_time": 1, "error": 1}


@pytest.mark.django_db
def test_what_is_older_than_400_days_is_deleted_from_both_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "timezone", SimpleNamespace(now=lambda: NOON))
    for days in (399, 400, 401):
        row: dict[str, Any] = {"hour": NOON - timedelta(days=days), "slot": "source_a", "connector": "twilio"}
        Usage.objects.create(token_id=7, **row)
        SourceHour.objects.create(**row)
    assert usage.prune() == 2
    assert [Usage.objects.count(), SourceHour.objects.count()] == [2, 2]


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
