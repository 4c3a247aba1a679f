"""Records each request to the search once: in the statistics, the request log, the metrics and the log line. (What the
sources of a search contributed is counted by lookup.search, also for searches that no client requested.)"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.conf import settings

from accounts import request_statistics
from accounts.charging import ChargedAnswer
from accounts.models import ActiveToken
from core import write_buffer
from core.hashing import keyed_hash
from core.metrics import log_exceptions
from lookup.answers import Failed
from lookup.search import SLOTS, SlotResult
from monitoring import request_log
from phonebook import numbers

_NOT_ASKED = ("", None, "", None, "", "")


@dataclass(slots=True)
class SearchRecord:
    """A request to the search and its answer.

    `token`: None without a valid one. `outcome`: one of accounts.request_statistics.OUTCOMES. `replayed`: whether an
    earlier request's answer was sent again. `elapsed_s`: since the request was received. `number`: None if it is
    missing or invalid. `charge`: None unless a credit was taken. `slots`: empty when no source was asked.
    """

    token: ActiveToken | None
    request_id: str
    status: int
    outcome: str
    replayed: bool
    elapsed_s: float
    number: str | None
    charge: ChargedAnswer | None
    slots: Mapping[str, SlotResult]

    @property
    def number_hash(self) -> bytes | None:
        if self.charge and self.charge.number_hash is not None:
            return self.charge.number_hash
        return keyed_hash("number", self.number) if self.number is not None else None


def record(search: SearchRecord) -> dict[str, Any]:
    """Count and log a request; returns the facts for its log line. Never raises and never waits for the database."""
    facts: dict[str, Any] = {}
    if search.token is not None:
        facts["token"] = search.token.pk
        if search.token.is_test:
            facts["test"] = "yes"
    if search.number is not None:
        facts["number"] = numbers.mask(search.number)
    facts |= {slot: result.status for slot, result in search.slots.items()}
    _store(search, facts.get("number", ""))
    return facts


@log_exceptions
def _store(search: SearchRecord, number_mask: str) -> None:
    token = search.token
    request_statistics.count(token_id=token.pk if token else None, outcome=search.outcome)
    now = datetime.now(UTC)
    if token is None or not settings.REQUEST_LOG_DAYS:
        return
    if search.status == 429 and not request_log.admits_rate_limited(token.pk, now):
        return
    charge = search.charge
    row = (
        *(now, token.pk, search.request_id, search.status, search.outcome, charge is not None, search.replayed),
        *(charge.entry_id if charge else None, number_mask, search.number_hash, _us(search.elapsed_s)),
        *(_slots(search.slots) if search.slots else _NOT_ASKED),
    )
    write_buffer.process_buffer.add((request_log.TABLE, row, ()))


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
