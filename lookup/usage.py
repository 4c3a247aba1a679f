"""Statistics: how often each source was asked, with what outcome, and how long it took (accounts.recorder writes)."""

import math
import re
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max, Sum
from django.utils import timezone

from accounts.pruning import KEPT_DAYS, delete_in_chunks
from accounts.recorder import Recorder, Table, from_hour, hour, never_raises, recorder
from lookup.models import SourceHour, Usage

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


@never_raises
def count(
    *, token_id: int, slot: str, connector: str, outcome: str, elapsed_s: float | None, to: Recorder = recorder
) -> None:
    """Count one answer, or an event. Never raises.

    `token_id`: 0 when no token asked. `slot`: empty for an event that belongs to none. `connector`: the word that
    binds it. `outcome`: one word of letters, `_` and `-`, 32 at most; any other text counts as `error`.
    `elapsed_s`: None for an event.
    """
    word = outcome if _WORD.fullmatch(outcome) else "error"
    at, what = hour(time.time()), (slot, connector[:200], word)
    amounts = [(0, 1)]
    if elapsed_s is not None:
        elapsed_us = max(0, round(elapsed_s * 1_000_000))
        amounts += [(1, elapsed_us), (2 + bisect_left(_BOUNDS_US, elapsed_us), 1)]
    to.add(BY_TOKEN, (at, token_id, *what), amounts)
    to.add(BY_HOUR, (at, *what), amounts)


def prune() -> int:
    """Delete what is older than KEPT_DAYS; how many rows."""
    oldest = timezone.now() - timedelta(days=KEPT_DAYS)
    return delete_in_chunks(Usage.objects.filter(hour__lt=oldest), PRUNE_ROWS) + delete_in_chunks(
        SourceHour.objects.filter(hour__lt=oldest), PRUNE_ROWS
    )


# --- Reading -----------------------------------------------------------------------------------------------------

#: Answers for which the source itself was not asked.
_CACHED = {"cached_found", "cached_not_found"}
#: Failures without a call, and the beginning of those whose call was another search's.
_REFUSED = {"breaker", "busy", "no_time"}
_SHARED = "shared_"
_EVENTS = {"breaker_opened", "breaker_closed"}


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
        return self.total_us / self.calls / 1000 if self.calls else None

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
