"""Source metrics: how often each source was called, with which outcome, and how long it took. (Requests:
accounts.request_statistics.)

`count` adds to counters in memory (core.write_buffer), which a thread writes to tables; the reports read the tables.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Q, Sum
from django.db.models.functions import TruncDay

from core import metrics, write_buffer
from core.commands import command_line
from core.metrics import log_exceptions
from core.periods import hour_of
from core.ranges import FIRST
from core.retention import PRUNE_ROWS, delete_in_batches, oldest_kept
from core.text import sentence
from core.write_buffer import BufferedTable, Row
from lookup.answers import REFUSALS, SourceCall
from lookup.connectors.registry import BUILT_IN
from monitoring.models import SourceHour, SourceResult, TokenSourceDay

#: Upper bounds of the histogram's buckets, without the last one, which has none.
BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
BUCKETS = (*(f"ms_{bound}" for bound in BOUNDS_MS), "ms_more")

_BOUNDS_US = [bound * 1000 for bound in BOUNDS_MS]
_SUMS = ("count", "total_us", *BUCKETS)
_TOTALS: dict[str, Any] = {f"sum_{column}": Sum(column) for column in _SUMS}

HOURS = BufferedTable(SourceHour, ("hour", "slot", "connector", "outcome"), _SUMS)
RESULTS = BufferedTable(SourceResult, ("connector", "reason", "hint"), ("last_ms",), maximum=True)
TOKEN_DAYS = BufferedTable(TokenSourceDay, ("token_id", "day", "slot", "connector"), ("calls",))

_ANSWERED = {"found", "not_found"}
#: Answers without a call.
_CACHED = {"cached_found", "cached_not_found"}
#: Failures without a call.
NOT_CALLED = {"breaker", "busy", "no_time", "paused"}
#: Of them, the one whose last time is kept: the circuit breaker of a process was open.
BREAKER = "breaker"
#: The reason under which SourceResult has when an operator resumed a source.
RESUMED = "resumed"
#: Prefix of failures whose call was another search's.
_SHARED = "shared_"
_NO_CALL = _CACHED | NOT_CALLED

LOOKUPS = metrics.Counter(
    "callerid_source_lookups", "Lookups of a source by searches, cached ones included.", ("source", "outcome")
)
#: Why sources fail (docs/monitoring.md), most urgent first, and what an operator can do. A connector of the operator's
#: own may have other reasons, which LOOKUPS does not tell apart. Commands are in braces.
_ADVICE = {
    "auth": "Correct the key, or ask the vendor to enable the account.",
    "quota": "Top up the account with the vendor, or wait for its next billing period.",
    "rate_limited": "Lower its concurrency, or ask the vendor for a higher rate limit.",
    "late": "See the vendor's status page.",
    "unavailable": "See the vendor's status page. A source that stays down can be paused.",
    "bad_response": "Correct the preset or the connector, then run {check_sources}.",
    "error": "See the log, and correct the connector.",
    "breaker": "See the reason on the source's page. Calls resume when the source responds.",
    "busy": "Raise its concurrency, if the vendor allows it.",
    "no_time": "Put faster sources before it, or raise SEARCH_DEADLINE_S.",
    "paused": "Resume it when it works again.",
}
#: The same of sources that are built in, where it differs.
_BUILT_IN_ADVICE = {
    "late": "Check the load of the database.",
    "unavailable": "See the log, and run {doctor}.",
}
REASONS = tuple(_ADVICE)
#: What a failure of a call means.
MEANINGS = {
    "auth": "the vendor rejected the key",
    "quota": "the vendor's quota is used up",
    "rate_limited": "the vendor refused the call: too many in a short time",
    "late": "no reply in time",
    "unavailable": "the source could not be reached",
    "bad_response": "the reply could not be read",
    "error": "the connector failed",
}
_METRIC_OUTCOMES = {*_ANSWERED, *_CACHED, *REASONS}


@log_exceptions
def count(slot: str, calls: Iterable[SourceCall], token_id: int | None = None) -> None:
    """Count what the sources of one slot contributed to a search. `token_id`: of the token that it was for, if any.
    Never raises."""
    now_s = time.time()
    hour = hour_of(now_s)
    rows: list[Row] = []
    for call in calls:
        connector, outcome, elapsed_s = call.connector[:200], call.outcome, call.elapsed_s
        reason = outcome.removeprefix(_SHARED)
        LOOKUPS.inc(connector, reason if reason in _METRIC_OUTCOMES else "other")
        amounts = [(0, 1)]
        if elapsed_s is not None:
            elapsed_us = max(0, round(elapsed_s * 1_000_000))
            amounts += [(1, elapsed_us), (2 + bisect_left(_BOUNDS_US, elapsed_us), 1)]
            if outcome not in _CACHED and reason not in NOT_CALLED - {BREAKER}:
                failure = ("", "") if reason in _ANSWERED else (reason, call.hint)
                rows.append((RESULTS, (connector, *failure), [(0, int(now_s * 1000))]))
            if token_id is not None and connector not in BUILT_IN and is_billable(outcome):
                rows.append((TOKEN_DAYS, (token_id, hour.date().isoformat(), slot, connector), [(0, 1)]))
        rows.append((HOURS, (hour, slot, connector, outcome), amounts))
    write_buffer.process_buffer.add(*rows)


def is_call(outcome: str) -> bool:
    """Whether the search called the source itself."""
    return outcome not in _NO_CALL and not outcome.startswith(_SHARED)


def is_billable(outcome: str) -> bool:
    """Whether the search made a call that the vendor may bill: it did not refuse it."""
    return is_call(outcome) and outcome not in REFUSALS


def is_failure(outcome: str) -> bool:
    return outcome not in _ANSWERED | _CACHED


def advice(outcome: str, source: str) -> str:
    """What an operator can do about a failure of this source; empty for an answer."""
    reason = outcome.replace(" ", "_").removeprefix(_SHARED)
    if not is_failure(reason):
        return ""
    known = _ADVICE | _BUILT_IN_ADVICE if source in BUILT_IN else _ADVICE
    text = known.get(reason, "See the log, and correct the connector.")
    return text.format(check_sources=command_line("check_sources"), doctor=command_line("doctor"))


def outcome_text(outcome: str) -> str:
    """An outcome in words, such as `found (cached)` and `failed: late`."""
    word = outcome.removeprefix(_SHARED).removeprefix("cached_")
    how = "" if word == outcome else " (cached)" if outcome in _CACHED else " (another search's call)"
    return (f"failed: {word}" if is_failure(outcome) else word.replace("_", " ")) + how


def check_text(outcome: str, *, ok: bool, ms: float, fix: str) -> str:
    """`The check succeeded: found, in 230 ms.` or `The check failed: the vendor rejected the key (auth).`"""
    if ok:
        return f"The check succeeded: {outcome}, in {ms:,.0f} ms."
    meaning = MEANINGS.get(outcome.replace(" ", "_"))
    return sentence(f"The check failed: {f'{meaning} ({outcome})' if meaning else fix or outcome}")


def prune() -> int:
    """Delete rows older than KEPT_DAYS; returns how many."""
    oldest = oldest_kept()
    expired = (
        SourceHour.objects.filter(hour__lt=oldest),
        SourceResult.objects.filter(last_ms__lt=_ms(oldest)),
        TokenSourceDay.objects.filter(day__lt=oldest.date()),
    )
    return sum(delete_in_batches(rows, PRUNE_ROWS) for rows in expired)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


# --- Reports -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SourceUsage:
    """Figures of a source. `calls`: its own calls, which took `total_us` together. `billable`: those that have a price.
    `failures`: how many by reason, including those without a call of its own."""

    calls: int = 0
    billable: int = 0
    found: int = 0
    not_found: int = 0
    cached: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    total_us: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))

    def add(self, outcome: str, sums: Sequence[int]) -> None:
        """Add what was counted with one outcome. `sums`: as _SUMS lists them."""
        count, total_us, *buckets = sums
        reason = outcome.removeprefix(_SHARED)
        if outcome in _CACHED:
            self.cached += count
            return
        if outcome == "found":
            self.found += count
        elif outcome == "not_found":
            self.not_found += count
        else:
            self.failures[reason] = self.failures.get(reason, 0) + count
        if is_billable(outcome):
            self.billable += count
        if is_call(outcome):
            self.calls += count
            self.total_us += total_us
            self.buckets = [a + b for a, b in zip(self.buckets, buckets, strict=True)]

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def failed_unpaused(self) -> int:
        """Failures without those while an operator had paused the source."""
        return self.failed - self.failures.get("paused", 0)

    @property
    def unpaused(self) -> int:
        """Lookups without cached answers and without those of a paused source."""
        return self.found + self.not_found + self.failed_unpaused

    @property
    def mean_ms(self) -> float | None:
        timed = sum(self.buckets)
        return self.total_us / timed / 1000 if timed else None

    @property
    def median_ms(self) -> float | None:
        return percentile(self.buckets, 0.5)

    @property
    def p95_ms(self) -> float | None:
        return percentile(self.buckets, 0.95)


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """An estimate of the duration in milliseconds that `share` (0 to 1) of the calls in `buckets` did not exceed.

    Interpolates linearly within a bucket. None without calls; infinite when it lies in the last bucket.
    """
    rank, below = share * sum(buckets), 0
    if not rank:
        return None
    for index, (bound, calls) in enumerate(zip(BOUNDS_MS, buckets, strict=False)):
        if below + calls >= rank:
            lower = BOUNDS_MS[index - 1] if index else 0
            return lower + (bound - lower) * (rank - below) / calls
        below += calls
    return math.inf


def usages(
    since: datetime, *columns: str, until: datetime | None = None, **only: str
) -> dict[tuple[Any, ...], SourceUsage]:
    """The sums of all hours from `since` on, and before `until`, for each combination of `columns`: `slot`,
    `connector`, `hour`, `day` (UTC). `only`: the value of a column. One statement."""
    hours = {"hour__gte": since} | ({"hour__lt": until} if until else {})
    rows: Any = SourceHour.objects.filter(**hours, **only).annotate(day=TruncDay("hour", tzinfo=UTC))
    grouped = rows.values(*columns, "outcome").annotate(**_TOTALS).order_by(*columns, "outcome")
    found: dict[tuple[Any, ...], SourceUsage] = {}
    for row in grouped.values_list(*columns, "outcome", *_TOTALS):
        key, (outcome, *sums) = row[: len(columns)], row[len(columns) :]
        found.setdefault(key, SourceUsage()).add(outcome, sums)
    return found


def record_resumption(connector: str, at: datetime) -> None:
    """In the transaction of the caller."""
    values = {"last_ms": _ms(at)}
    SourceResult.objects.update_or_create(connector=connector, reason=RESUMED, hint="", defaults=values)


class LastResults(NamedTuple):
    """Of each connector: when it last answered, was last not called because of its circuit breaker, and was last
    resumed; and its last failure for each reason and hint, the newest first."""

    answered: dict[str, datetime]
    refused: dict[str, datetime]
    resumed: dict[str, datetime]
    failures: list[SourceResult]


def last_results(since: datetime = FIRST) -> LastResults:
    """All but the answers: since then. One statement."""
    shown = SourceResult.objects.filter(Q(reason="") | Q(last_ms__gte=_ms(since)))
    found = LastResults({}, {}, {}, [])
    times = {"": found.answered, BREAKER: found.refused, RESUMED: found.resumed}
    for row in shown.order_by("-last_ms", "connector", "reason"):
        if row.reason in times:
            times[row.reason].setdefault(row.connector, row.at)
        else:
            found.failures.append(row)
    return found
