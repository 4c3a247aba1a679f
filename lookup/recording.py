"""Reports each answered request once: to those who keep it (lookup.signals), and to the log line. (What the sources of
a search contributed is reported by lookup.search, also for searches without a client.)"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from accounts.charging import ChargedAnswer
from accounts.models import ActiveToken
from core import numbers
from core.hashing import keyed_hash
from lookup import signals
from lookup.search import SlotResult


@dataclass(slots=True)
class SearchRecord:
    """A request to the search and its answer. `idempotency_key`: whether it had one, even an invalid one.

    `token`: None without a valid one. `number`: None if it is missing or invalid. `slots`: empty when no source was
    asked. `charge`: None unless a credit was taken. `replayed`: whether an earlier request's answer was sent again.
    `outcome`: one of accounts.request_statistics.OUTCOMES. `elapsed_s`: since the request was received.
    """

    request_id: str
    idempotency_key: bool
    token: ActiveToken | None = None
    number: str | None = None
    slots: Mapping[str, SlotResult] = field(default_factory=dict)
    charge: ChargedAnswer | None = None
    replayed: bool = False
    outcome: str = ""
    status: int = 0
    elapsed_s: float = 0.0

    @property
    def number_hash(self) -> bytes | None:
        if self.charge and self.charge.number_hash is not None:
            return self.charge.number_hash
        return keyed_hash("number", self.number) if self.number is not None else None

    def report(self) -> dict[str, Any]:
        """Report the answered request; returns the facts for its log line."""
        facts: dict[str, Any] = {}
        if self.token is not None:
            facts["token"] = self.token.pk
            if self.token.is_test:
                facts["test"] = "yes"
        if self.number is not None:
            facts["number"] = numbers.mask(self.number)
        facts |= {slot: result.status for slot, result in self.slots.items()}
        signals.answered.send_robust(None, record=self, number_mask=facts.get("number", ""))
        return facts
