"""The request log: a row for each request with a valid token, kept for REQUEST_LOG_DAYS.

`record` adds the row to a queue in memory, which a thread writes (core.row_queue). A row has the masked number and its
keyed hash; no number in clear, no name, no answer.
"""

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from accounts.charging import ChargedAnswer
from core import db
from core.database_errors import describe
from core.hashing import keyed_hash
from core.retention import delete_in_batches, update_in_batches
from core.row_queue import FLUSH_INTERVAL_S, Row, RowQueue
from lookup import statistics
from lookup.answers import Failed
from lookup.models import RequestLogEntry
from lookup.search import SLOTS, SearchResult, SlotResult

log = logging.getLogger(__name__)

#: Rate-limited requests of one token that a process logs per minute. Further ones are only counted: nothing limits how
#: many a client sends. All other requests are within the token's rate limit.
MAX_RATE_LIMITED = 10
PRUNE_ROWS = 5_000
ERASE_ROWS = 500

_COLUMNS = (
    *("created_at", "token_id", "request_id", "status", "outcome", "charged", "replayed", "entry_id", "number_mask"),
    *("number_hash", "duration_us", "source_a", "source_a_us", "source_b", "source_b_us", "failures", "calls"),
)
_NUMBER_HASH = _COLUMNS.index("number_hash")
_NOT_ASKED = ("", None, "", None, "", "")


class RequestLog(RowQueue):
    """The rows of one process that are not in the database yet."""

    def __init__(self, flush_interval_s: float | None = FLUSH_INTERVAL_S) -> None:
        super().__init__(
            name="the request log",
            model=RequestLogEntry,
            columns=_COLUMNS,
            to_columns=_to_columns,
            flush_interval_s=flush_interval_s,
        )
        self._minute = 0
        self._rate_limited: dict[int, int] = {}

    def admits_rate_limited(self, token_id: int, now_s: float) -> bool:
        """Whether one more rate-limited request of this token may be logged in this minute."""
        if (minute := int(now_s) // 60) != self._minute:
            self._minute, self._rate_limited = minute, {}
        logged = self._rate_limited[token_id] = self._rate_limited.get(token_id, 0) + 1
        return logged <= MAX_RATE_LIMITED

    def after_insert(self, count: int) -> None:
        """Delete up to twice as many rows that `prune` should have deleted a day ago: without `prune` the table does
        not grow without bound. Where it runs daily, there are none."""
        try:
            with transaction.atomic():
                db.run(*_delete_overdue(2 * count))
        except Exception as error:
            log.warning("the request log: overdue rows were not deleted (%s)", describe(error))


def _to_columns(row: Row) -> Sequence[Any]:
    values = list(row)
    values[0] = datetime.fromtimestamp(row[0], UTC)
    if connection.vendor == "postgresql" and (number_hash := row[_NUMBER_HASH]) is not None:
        values[_NUMBER_HASH] = f"\\x{number_hash.hex()}"  # bytea's text format
    return values


def _delete_overdue(limit: int) -> tuple[str, list[Any]]:
    overdue = timezone.now() - timedelta(days=settings.REQUEST_LOG_DAYS + 1)
    lock = "FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    statement = f"""
    DELETE FROM lookup_requestlogentry WHERE id IN (
        SELECT id FROM lookup_requestlogentry WHERE created_at < %s ORDER BY created_at LIMIT %s {lock}
    )"""  # noqa: S608
    return statement, [overdue, limit]


def record(
    *,
    token_id: int,
    request_id: str,
    status: int,
    outcome: str,
    replayed: bool,
    elapsed_s: float,
    number: str | None,
    number_mask: str,
    charge: ChargedAnswer | None,
    result: SearchResult | None,
) -> None:
    """Log one answered request. Never raises.

    `outcome`: one of accounts.statistics.OUTCOMES. `number`: None for an invalid request. `charge`: None unless a
    credit was taken. `result`: None when no source was asked.
    """
    if not settings.REQUEST_LOG_DAYS:
        return
    try:
        now_s = time.time()
        if status == 429 and not process_log.admits_rate_limited(token_id, now_s):
            return
        number_hash = charge.number_hash if charge else None
        if number_hash is None and number is not None:
            number_hash = keyed_hash("number", number)
        process_log.add(
            (
                *(now_s, token_id, request_id, status, outcome, charge is not None, replayed),
                *(charge.entry_id if charge else None, number_mask, number_hash, _us(elapsed_s)),
                *(_NOT_ASKED if result is None else _slots(result.slots)),
            )
        )
    except Exception as error:
        log.warning("the request log: a request was not logged (%s)", describe(error))


def _slots(slots: dict[str, SlotResult]) -> tuple[Any, ...]:
    calls, failures = {}, []
    for slot, result in slots.items():
        calls[slot] = [
            [call.connector, call.outcome, None if call.elapsed_s is None else _us(call.elapsed_s), call.hint]
            for call in result.calls
        ]
        failed = [
            f"{slot}:{call.connector}:{call.outcome.removeprefix('shared_')}"
            for call in result.calls
            if isinstance(call.answer, Failed)
        ]
        if isinstance(result.answer, Failed) and not failed:
            failed = [f"{slot}:-:{statistics.clean_outcome(result.answer.reason)}"]
        failures += failed
    a, b = (slots[slot] for slot in SLOTS)
    return (
        a.status,
        _us(a.elapsed_s),
        b.status,
        _us(b.elapsed_s),
        " ".join(failures),
        msgspec.json.encode(calls).decode(),
    )


def _us(elapsed_s: float) -> int:
    return round(elapsed_s * 1_000_000)


def prune() -> int:
    """Delete rows older than REQUEST_LOG_DAYS, all if it is 0; returns how many."""
    expired = timezone.now() - timedelta(days=settings.REQUEST_LOG_DAYS)
    return delete_in_batches(RequestLogEntry.objects.filter(created_at__lt=expired), PRUNE_ROWS)


def erase(numbers: Sequence[str]) -> int:
    """Remove mask and hash of `numbers` from the rows that have them; returns how many changed."""
    rows = RequestLogEntry.objects.filter(number_hash__in=[keyed_hash("number", number) for number in numbers])
    return update_in_batches(rows, ERASE_ROWS, number_hash=None, number_mask="")


#: The log of this process. Tests replace it.
process_log = RequestLog()
