"""One search: the operator's rule first, then both slots under one deadline."""

import time
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from lookup import rules, usage
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.chain import Inquiry, Member
from lookup.connectors.registry import bind

#: Each slot's name in the answer, the setting that binds it, and the fields that it may have.
SLOTS = {
    "source_a": ("SOURCE_A", frozenset({"name", "location"})),
    "source_b": ("SOURCE_B", frozenset({"name", "spam"})),
}


class AllSourcesFailed(Exception):
    """Neither slot could tell: an outage, which is not sold as "nobody knows this number"."""


@dataclass(frozen=True, slots=True)
class SlotResult:
    answer: Answer
    elapsed_s: float

    @property
    def word(self) -> str:
        """`found`, `not-found` or `failed`."""
        return _WORDS[type(self.answer)]


_WORDS = {Found: "found", NotFound: "not-found", Failed: "failed"}


@dataclass(frozen=True, slots=True)
class SearchResult:
    number: str
    slots: dict[str, SlotResult]

    @property
    def empty(self) -> bool:
        return not any(isinstance(slot.answer, Found) for slot in self.slots.values())

    @property
    def failed(self) -> bool:
        """Neither slot could tell."""
        return all(isinstance(slot.answer, Failed) for slot in self.slots.values())


def members(slot: str) -> tuple[Member, ...]:
    """The connectors that this slot is bound to. Raises ImproperlyConfigured."""
    setting, _ = SLOTS[slot]
    return _bound(slot, setting, getattr(settings, setting))


def search(number: str, *, token_id: int = 0) -> SearchResult:
    """Ask both slots about `number` within SEARCH_DEADLINE_S. A slot that is late has failed.

    `token_id`: in whose name, for the statistics.
    """
    deadline = time.monotonic() + settings.SEARCH_DEADLINE_S
    rule = rules.find(number)
    inquiries = {slot: Inquiry(slot, members(slot), fields, number, rule) for slot, (_, fields) in SLOTS.items()}
    for inquiry in inquiries.values():
        inquiry.ask_local(settings.SEARCH_DEADLINE_S)
    if remote := [inquiry for inquiry in inquiries.values() if inquiry.wants_remote()]:
        _give_connection_back()
        _ask_remote(remote, deadline)
    for slot, inquiry in inquiries.items():
        for record in inquiry.records:
            usage.count(
                token_id=token_id,
                slot=slot,
                connector=record.connector,
                outcome=record.outcome,
                elapsed_s=record.elapsed_s,
            )
    return SearchResult(number, {slot: SlotResult(*inquiry.result()) for slot, inquiry in inquiries.items()})


def _ask_remote(inquiries: list[Inquiry], deadline: float) -> None:
    """The slots' remote members, both slots at the same time; whoever has not answered in time has failed."""
    waiting = {inquiry: future for inquiry in inquiries if (future := inquiry.ask_remote(deadline))}
    while waiting:
        first_due = min(inquiry.due for inquiry in waiting)
        wait(set(waiting.values()), max(0.0, first_due - time.monotonic()), FIRST_COMPLETED)
        now = time.monotonic()
        for inquiry, future in list(waiting.items()):
            if future.done() or now >= inquiry.due:
                inquiry.take()
                del waiting[inquiry]
                if following := inquiry.ask_remote(deadline):
                    waiting[inquiry] = following


@lru_cache(maxsize=16)
def _bound(slot: str, setting: str, names: str) -> tuple[Member, ...]:
    bound, (_, fields) = bind(slot, setting, names), SLOTS[slot]
    for member in bound:
        if not member.connector.fields & fields:
            raise ImproperlyConfigured(
                f"{setting}: '{member.name}' knows {' and '.join(sorted(member.connector.fields))} only, "
                f"and this slot has {' and '.join(sorted(fields))}."
            )
    return bound


def _give_connection_back() -> None:
    """Return the request's connection to the pool: nobody holds one while a vendor is asked."""
    if "pool" in connection.settings_dict["OPTIONS"] and not connection.in_atomic_block:
        connection.close()
