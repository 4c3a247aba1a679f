"""Statistics: how often each source was asked, with what outcome, and how long it took.

They are counted in memory. A thread of this module's own adds them to the table every FLUSH_S and at the process's
orderly end, so a crash loses at most so much. Nothing depends on them: a search runs no statement for them and never
fails of them.
"""

import logging
import math
import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.util import Finalize
from typing import Any

from django.db import connection, transaction
from django.db.models import Max, Sum
from django.utils import timezone

from accounts.pruning import delete_in_chunks
from lookup.models import Usage

log = logging.getLogger(__name__)

FLUSH_S = 10.0
#: The end of a process waits so long for the last flush: less than serve.py's `workers_kill_timeout`.
EXIT_S = 4.0
#: What one process keeps while the database does not take it: some 30 MB.
MAX_ROWS = 50_000
#: In one transaction: on SQLite searches wait for it.
CHUNK_ROWS = 500

#: How long the table keeps an hour: more than a year, to compare with the last.
KEPT_DAYS = 400
PRUNE_ROWS = 5_000

#: Upper bounds of the buckets but the last, which has none.
BOUNDS_MS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
BUCKETS = (*(f"ms_{bound}" for bound in BOUNDS_MS), "ms_more")

_KEY = ("hour", "token_id", "slot", "connector", "outcome")
_SUMS = ("count", "total_us", *BUCKETS)
_BOUNDS_US = [bound * 1000 for bound in BOUNDS_MS]
_HOUR_S = 3600
# A source of the operator's own may fail with any text; as an outcome it would hold what it must not, or be endless.
_WORD = re.compile(r"[A-Za-z_-]{1,32}")

#: Hours since 1970, then as in the table.
Key = tuple[int, int, str, str, str]


class Recorder:
    """One process's counts. `every_s` None: nothing is written until `flush` is called."""

    def __init__(self, every_s: float | None = FLUSH_S) -> None:
        self._every_s = every_s
        self.reset()

    def reset(self) -> None:
        """Forget everything, the thread too: after a fork it is the parent's, and so is what was counted."""
        self._lock = threading.Lock()
        self._rows: dict[Key, list[int]] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._failing = self._full = False

    def count(self, *, token_id: int, slot: str, connector: str, outcome: str, elapsed_s: float | None) -> None:
        """Count one answer, or an event. Never raises.

        `token_id`: 0 when no token asked. `slot`: empty for an event that belongs to none. `connector`: the word that
        binds it. `outcome`: one word of letters, `_` and `-`, 32 at most; any other text counts as `error`.
        `elapsed_s`: None for an event.
        """
        try:
            word = outcome if _WORD.fullmatch(outcome) else "error"
            key = (int(time.time()) // _HOUR_S, token_id, slot, connector[:200], word)
            elapsed_us = None if elapsed_s is None else max(0, round(elapsed_s * 1_000_000))
            with self._lock:
                if row := self._row(key):
                    row[0] += 1
                    if elapsed_us is not None:
                        row[1] += elapsed_us
                        row[2 + bisect_left(_BOUNDS_US, elapsed_us)] += 1
                if self._thread is None and self._every_s is not None:
                    thread = threading.Thread(target=self._flush_regularly, name="usage", daemon=True)
                    thread.start()
                    self._thread = thread
                    # Not atexit, which granian's workers end without: they are multiprocessing's children. In any
                    # other process this runs at exit too.
                    Finalize(None, self.close, exitpriority=0)
        except Exception as error:
            log.warning("statistics: not counted (%s)", type(error).__name__)

    def flush(self) -> None:
        """Add what was counted to the table, on this thread's connection. Never raises: what the database does not take
        is kept for the next time. (When only its answer was lost it counts twice.)"""
        with self._lock:
            rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            # In the same order in every process: two that add to the same rows never wait for each other in a circle.
            keys = sorted(rows)
            for start in range(0, len(keys), CHUNK_ROWS):
                chunk = keys[start : start + CHUNK_ROWS]
                _add_to_table([(key, rows[key]) for key in chunk])
                for key in chunk:
                    del rows[key]
        except Exception as error:
            if not self._failing:
                log.warning("statistics are kept in memory: the database does not take them (%s)", type(error).__name__)
            self._failing = True
        else:
            if self._failing:
                log.warning("statistics are written again")
            self._failing = self._full = False
        finally:
            self._keep(rows)

    def close(self) -> None:
        """The thread flushes a last time and ends."""
        if self._thread is not None:
            self._ending.set()
            self._thread.join(EXIT_S)

    def _row(self, key: Key) -> list[int] | None:
        """To add to; None when there is no room for one more."""
        row = self._rows.get(key)
        if row is None and len(self._rows) < MAX_ROWS:
            row = self._rows[key] = [0] * len(_SUMS)
        if row is None and not self._full:
            self._full = True
            log.warning("statistics: %d rows wait to be written, and no more are kept", MAX_ROWS)
        return row

    def _keep(self, rows: dict[Key, list[int]]) -> None:
        with self._lock:
            for key, sums in rows.items():
                if row := self._row(key):
                    row[:] = map(sum, zip(row, sums, strict=True))

    def _flush_regularly(self) -> None:
        ended = False
        while not ended:
            ended = self._ending.wait(self._every_s)
            self.flush()
            with suppress(Exception):  # one that was lost may not close either
                connection.close()


def _add_to_table(rows: Sequence[tuple[Key, Sequence[int]]]) -> None:
    """In one statement: psycopg's executemany logs lines of its own when the database fails."""
    table = Usage._meta.db_table
    columns = _KEY + _SUMS
    values = f"({', '.join(['%s'] * len(columns))})"
    sums = ", ".join(f"{column} = {table}.{column} + excluded.{column}" for column in _SUMS)
    parameters: list[Any] = []
    for (hour, *key), counts in rows:
        begins = datetime.fromtimestamp(hour * _HOUR_S, UTC)
        parameters += [connection.ops.adapt_datetimefield_value(begins), *key, *counts]
    # A refusal leaves a transaction that this may stand in as it was.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([values] * len(rows))} "  # noqa: S608
            f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {sums}",
            parameters,
        )


def prune() -> int:
    """Delete what is older than KEPT_DAYS; how many rows."""
    old = Usage.objects.filter(hour__lt=timezone.now() - timedelta(days=KEPT_DAYS))
    return delete_in_chunks(old, PRUNE_ROWS)


recorder = Recorder()
count = recorder.count
flush = recorder.flush
os.register_at_fork(after_in_child=recorder.reset)


# --- Reading -----------------------------------------------------------------------------------------------------

#: Answers for which the source itself was not asked.
_CACHED = {"cached_found", "cached_not_found"}
_REFUSED = {"breaker", "busy"}
_EVENTS = {"breaker_opened", "breaker_closed"}


@dataclass(slots=True)
class SourceUsage:
    """One connector's in one slot. `calls`: how often it was asked itself, in `total_us` altogether; `failures`: how
    often for which reason, refusals without a call too."""

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
    """The sums of all hours from `since` on, by slot and connector, and of the breakers that opened or closed."""
    sums: dict[str, Any] = {f"sum_{column}": Sum(column) for column in _SUMS}
    rows: Any = (
        Usage.objects.filter(hour__gte=since)
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
            source.failures[outcome] = how_many
        if outcome not in _REFUSED:
            source.calls += how_many
            source.total_us += row["sum_total_us"]
            source.buckets = [a + row[f"sum_{name}"] for a, name in zip(source.buckets, BUCKETS, strict=True)]
    return list(sources.values()), list(breakers.values())
