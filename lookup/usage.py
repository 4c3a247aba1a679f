"""Statistics: how often each source was asked, with what outcome, and how long it took (accounts.recorder writes)."""

import math
import re
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Max, Q, Sum
from django.utils import timezone

from accounts.pruning import KEPT_DAYS, delete_in_chunks
from accounts.recorder import Recorder, Table, from_hour, hour, never_raises, recorder
from lookup.answers import clean_text
from lookup.models import SourceHour, SourceResult, Usage

PRUNE_ROWS = 5_000

#: Upper bounds of the buckets but the last, which has none.
BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
BUCKETS = (*(f"ms_{bound}" for bound in BOUNDS_MS), "ms_more")

_SUMS = ("count", "total_us", *BUCKETS)
_BOUNDS_US = [bound * 1000 for bound in BOUNDS_MS]
# A source of the operator's own may fail with any text; as an outcome it would hold what it must not, or be endless.
_WORD = re.compile(r"[A-Za-z_-]{1,32}")

BY_TOKEN = Table(Usage, ("hour", "token_id", "slot", "connector", "outcome"), _SUMS, from_hour)
BY_HOUR = Table(SourceHour, ("hour", "slot", "connector", "outcome"), _SUMS, from_hour)
RESULTS = Table(SourceResult, ("connector", "reason", "hint"), ("last_ms",), tuple, greatest=True)

_ANSWERED = {"found", "not_found"}
#: Answers for which the source itself was not asked.
_CACHED = {"cached_found", "cached_not_found"}
#: Failures without a call, and the beginning of those whose call was another search's.
_REFUSED = {"breaker", "busy", "no_time"}
_SHARED = "shared_"
_EVENTS = {"breaker_opened", "breaker_closed"}
# A hint holds no number. One of an operator's own source is not trusted to.
_NUMBER = re.compile(r"[0-9]{6,}")


@never_raises
def count(
    *,
    token_id: int,
    slot: str,
    connector: str,
    outcome: str,
    elapsed_s: float | None,
    hint: str = "",
    to: Recorder = recorder,
) -> None:
    """Count one answer, or an event. Never raises.

    `token_id`: 0 when no token asked. `slot`: empty for an event that belongs to none. `connector`: the word that
    binds it. `outcome`: one word of letters, `_` and `-`, 32 at most; any other text counts as `error`.
    `elapsed_s`: None for an event, and where nobody was asked. `hint`: of a failure, what an operator can do.
    """
    now_s, connector = time.time(), connector[:200]
    word = outcome if _WORD.fullmatch(outcome) else "error"
    at, what = hour(now_s), (slot, connector, word)
    amounts = [(0, 1)]
    if elapsed_s is not None:
        elapsed_us = max(0, round(elapsed_s * 1_000_000))
        amounts += [(1, elapsed_us), (2 + bisect_left(_BOUNDS_US, elapsed_us), 1)]
    to.add(BY_TOKEN, (at, token_id, *what), amounts)
    to.add(BY_HOUR, (at, *what), amounts)
    reason = word.removeprefix(_SHARED)
    if elapsed_s is not None and word not in _CACHED and reason not in _REFUSED:
        answered = reason in _ANSWERED
        result = ("", "") if answered else (reason, _NUMBER.sub("…", clean_text(hint)) if hint else "")
        to.add(RESULTS, (connector, *result), [(0, int(now_s * 1000))])


def prune() -> int:
    """Delete what is older than KEPT_DAYS; how many rows."""
    oldest = timezone.now() - timedelta(days=KEPT_DAYS)
    rows = (
        Usage.objects.filter(hour__lt=oldest),
        SourceHour.objects.filter(hour__lt=oldest),
        SourceResult.objects.filter(last_ms__lt=_ms(oldest)),
    )
    return sum(delete_in_chunks(each, PRUNE_ROWS) for each in rows)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


# --- Reading -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SourceUsage:
    """One connector's in one slot. `calls`: how often it was asked itself, in `total_us` altogether; `failures`: how
    often for which reason, without a call of its own too."""

    slot: str
    connector: str
    calls: int = 0
    found: int = 0
    not_found: int = 0
    cached: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    total_us: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

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


@dataclass(slots=True)
class BreakerUsage:
    """One connector's, over all processes. `last_opened`: the beginning of the hour."""

    connector: str
    opened: int = 0
    closed: int = 0
    last_opened: datetime | None = None


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """The milliseconds within which `share` (0 to 1) of the calls in `buckets` were answered.

    An estimate: calls are taken to be spread evenly over their bucket. None without any call; infinite when it lies in
    the last bucket, which has no bound.
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


def summary(since: datetime) -> tuple[list[SourceUsage], list[BreakerUsage]]:
    """The sums of all hours from `since` on, by slot and connector, and of the breakers that opened or closed. One
    statement."""
    sums: dict[str, Any] = {f"sum_{column}": Sum(column) for column in _SUMS}
    rows: Any = (
        SourceHour.objects.filter(hour__gte=since)
        .values("slot", "connector", "outcome")
        .annotate(**sums, last=Max("hour"))
        .order_by("slot", "connector", "outcome")
    )
    sources: dict[tuple[str, str], SourceUsage] = {}
    breakers: dict[str, BreakerUsage] = {}
    for row in rows:
        slot, connector, outcome, how_many = row["slot"], row["connector"], row["outcome"], row["sum_count"]
        if outcome in _EVENTS:
            breaker = breakers.setdefault(connector, BreakerUsage(connector))
            if outcome == "breaker_opened":
                breaker.opened, breaker.last_opened = how_many, row["last"]
            else:
                breaker.closed = how_many
            continue
        source = sources.setdefault((slot, connector), SourceUsage(slot, connector))
        if outcome in _CACHED:
            source.cached += how_many
            continue
        if outcome == "found":
            source.found = how_many
        elif outcome == "not_found":
            source.not_found = how_many
        else:
            reason = outcome.removeprefix(_SHARED)
            source.failures[reason] = source.failures.get(reason, 0) + how_many
        if outcome not in _REFUSED and not outcome.startswith(_SHARED):
            source.calls += how_many
            source.total_us += row["sum_total_us"]
            source.buckets = [a + row[f"sum_{name}"] for a, name in zip(source.buckets, BUCKETS, strict=True)]
    return list(sources.values()), list(breakers.values())


@dataclass(frozen=True, slots=True)
class HourOfFailures:
    """One connector's failures in one slot within the hour that begins at `hour`, `failed` of `total` times that it was
    asked or could not be."""

    hour: datetime
    slot: str
    connector: str
    failed: int
    total: int


def failures_by_hour(since: datetime, limit: int) -> list[HourOfFailures]:
    """The newest `limit` hours of sources with failures, from `since` on, newest first. One statement."""
    failed = Sum("count", filter=~Q(outcome__in=_ANSWERED))
    rows: Any = (
        SourceHour.objects.filter(hour__gte=since)
        .exclude(outcome__in=_CACHED | _EVENTS)
        .values_list("hour", "slot", "connector")
        .annotate(failed=failed, total=Sum("count"))
        .filter(failed__gt=0)
        .order_by("-hour", "slot", "connector")[:limit]
    )
    return [HourOfFailures(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of `connector` for one reason. `hint`: what an operator can do; may be empty."""

    connector: str
    reason: str
    hint: str
    at: datetime


def results(since: datetime) -> tuple[dict[str, datetime], list[Failure]]:
    """When each source last answered, and its last failure for each reason, newest first: of those from `since` on. One
    statement."""
    answered: dict[str, datetime] = {}
    failures = []
    rows = SourceResult.objects.filter(last_ms__gte=_ms(since)).order_by("-last_ms", "connector", "reason")
    for connector, reason, hint, last_ms in rows.values_list("connector", "reason", "hint", "last_ms"):
        at = datetime.fromtimestamp(last_ms / 1000, UTC)
        if reason:
            failures.append(Failure(connector, reason, hint, at))
        else:
            answered[connector] = at
    return answered, failures
