"""The request log: a row for each request with a valid token, kept for REQUEST_LOG_DAYS.

A row has the masked number and its keyed hash; no number in clear, no name, no answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from contrib.request_log.models import RequestLogEntry
from core import metrics, write_buffer
from core.hashing import keyed_hash
from core.retention import PRUNE_ROWS, delete_batch, delete_in_batches, update_in_batches
from core.write_buffer import BufferedTable
from lookup.answers import Failed
from lookup.recording import SearchRecord
from lookup.search import SLOTS, SlotResult

#: Rate-limited requests of one token that a process logs per minute. Further ones are only counted: nothing limits how
#: many a client sends. All other requests are within the token's rate limit.
MAX_RATE_LIMITED = 10
ERASE_ROWS = 500

#: By minute and token, how many rate-limited requests came; of one minute only. Tests clear it.
rate_limited: Counter[tuple[datetime, int]] = Counter()


def admits_rate_limited(token_id: int, now: datetime) -> bool:
    """Whether one more rate-limited request of this token may be logged in this minute."""
    minute = now.replace(second=0, microsecond=0)
    if minute != next(iter(rate_limited), (minute,))[0]:
        rate_limited.clear()
    rate_limited[minute, token_id] += 1
    return rate_limited[minute, token_id] <= MAX_RATE_LIMITED


def overdue() -> QuerySet[RequestLogEntry]:
    """The rows that `prune` should have deleted a day ago, the oldest first."""
    return _older_than(settings.REQUEST_LOG_DAYS + 1).order_by("created_at")


def _older_than(days: int) -> QuerySet[RequestLogEntry]:
    return RequestLogEntry.objects.filter(created_at__lt=timezone.now() - timedelta(days=days))


def delete_overdue() -> None:
    """Without `prune` the table does not grow without bound. Where it runs daily, there are none. Raises django.db's
    errors."""
    if overdue().exists():
        delete_batch(overdue(), PRUNE_ROWS)


def delete_while_serving() -> None:
    metrics.sampler(delete_overdue)


TABLE = BufferedTable(
    RequestLogEntry,
    (
        *("created_at", "token_id", "request_id", "status", "outcome", "charged", "replayed", "entry_id"),
        *("number_mask", "number_hash", "duration_us", "source_a", "source_a_us", "source_b", "source_b_us"),
        *("failures", "calls", "idempotency_key"),
    ),
)


_NOT_ASKED = ("", None, "", None, "", "")


def add(record: SearchRecord, number_mask: str) -> None:
    """Add a row, in memory; a thread writes it. `number_mask`: the masked number, or an empty string."""
    token = record.token
    now = datetime.now(UTC)
    if token is None or not settings.REQUEST_LOG_DAYS:
        return
    if record.status == 429 and not admits_rate_limited(token.pk, now):
        return
    charge = record.charge
    row = (
        *(now, token.pk, record.request_id, record.status, record.outcome, charge is not None, record.replayed),
        *(charge.entry_id if charge else None, number_mask, record.number_hash, _us(record.elapsed_s)),
        *(*(_slots(record.slots) if record.slots else _NOT_ASKED), record.idempotency_key),
    )
    write_buffer.process_buffer.add((TABLE, row, ()))


def _slots(slots: Mapping[str, SlotResult]) -> tuple[Any, ...]:
    """Status and duration of each slot; the failures; all calls as JSON."""
    calls: dict[str, list[Any]] = {}
    failures: list[str] = []
    for slot, result in slots.items():
        calls[slot], failed = [], []
        for call in result.calls:
            outcome = call.outcome
            elapsed_us = None if call.elapsed_s is None else _us(call.elapsed_s)
            calls[slot].append((call.connector, outcome, elapsed_us, call.hint))
            if isinstance(call.answer, Failed):
                failed.append(f"{slot}:{call.connector}:{outcome.removeprefix('shared_')}")
        if isinstance(result.answer, Failed) and not failed:  # in test mode, or a field that could not be read
            failed = [f"{slot}:-:{result.answer.reason}"]
        failures += failed
    a, b = (slots[slot] for slot in SLOTS)
    times = a.status, _us(a.elapsed_s), b.status, _us(b.elapsed_s)
    return *times, " ".join(failures), msgspec.json.encode(calls).decode()


def _us(elapsed_s: float) -> int:
    return round(elapsed_s * 1_000_000)


def prune() -> int:
    """Delete rows older than REQUEST_LOG_DAYS, all if it is 0; returns how many."""
    return delete_in_batches(_older_than(settings.REQUEST_LOG_DAYS), PRUNE_ROWS)


def about(numbers: Sequence[str]) -> QuerySet[RequestLogEntry]:
    """The rows of requests for `numbers`."""
    return RequestLogEntry.objects.filter(number_hash__in=[keyed_hash("number", number) for number in numbers])


def count(numbers: Sequence[str]) -> int:
    return about(numbers).count()


def erase(numbers: Sequence[str]) -> int:
    """Remove mask and hash of `numbers` from the rows that have them; returns how many changed."""
    return update_in_batches(about(numbers), ERASE_ROWS, number_hash=None, number_mask="")
