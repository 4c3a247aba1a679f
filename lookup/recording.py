"""Reports each answered request once: to monitoring, which counts it and adds it to the request log, and to the log
line. (What the sources of a search contributed is reported by lookup.search, also for searches without a client.)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accounts.charging import ChargedAnswer
from accounts.models import ActiveToken
from core import numbers
from core.hashing import keyed_hash
from lookup import signals
from lookup.search import SlotResult


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
    """Report an answered request to monitoring; returns the facts for its log line."""
    facts: dict[str, Any] = {}
    if search.token is not None:
        facts["token"] = search.token.pk
        if search.token.is_test:
            facts["test"] = "yes"
    if search.number is not None:
        facts["number"] = numbers.mask(search.number)
    facts |= {slot: result.status for slot, result in search.slots.items()}
    signals.answered.send_robust(None, record=search, number_mask=facts.get("number", ""))
    return facts
