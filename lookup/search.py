"""One search: the operator's rule first, then both slots under one deadline."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, wait
from dataclasses import dataclass
from functools import lru_cache, partial

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from accounts.turns import give_connection_back
from lookup import marks, rules, selects, usage
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector
from lookup.connectors.chain import Inquiry, Member, Tables
from lookup.connectors.registry import bind
from lookup.connectors.table import Table

log = logging.getLogger(__name__)

#: After one statement for all tables has failed, each has its own for so long.
APART_S = 5.0


class Apart:
    """Until when: a time.monotonic() value, this process's."""

    until = 0.0


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
    def found(self) -> int:
        """In how many slots."""
        return sum(isinstance(slot.answer, Found) for slot in self.slots.values())

    @property
    def empty(self) -> bool:
        return self.found == 0

    @property
    def degraded(self) -> bool:
        """At least one slot failed."""
        return any(isinstance(slot.answer, Failed) for slot in self.slots.values())

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
    bound = {slot: members(slot) for slot in SLOTS}
    rule, tables, mark = _read_tables(number, [member for of_slot in bound.values() for member in of_slot])
    inquiries = {slot: Inquiry(slot, bound[slot], fields, number, rule) for slot, (_, fields) in SLOTS.items()}
    for inquiry in inquiries.values():
        inquiry.ask_local(settings.SEARCH_DEADLINE_S, tables)
    if remote := [inquiry for inquiry in inquiries.values() if inquiry.wants_remote()]:
        # Known before, for no database is asked while vendors are: what is kept from before a correction is not used.
        mark = marks.find(number) if mark is None else mark
        give_connection_back()
        _ask_remote(remote, mark, deadline)
    for slot, inquiry in inquiries.items():
        for record in inquiry.records:
            usage.count(
                token_id=token_id,
                slot=slot,
                connector=record.connector,
                outcome=record.outcome,
                elapsed_s=record.elapsed_s,
                hint=record.hint,
            )
    return SearchResult(number, {slot: SlotResult(*inquiry.result()) for slot, inquiry in inquiries.items()})


def _read_tables(number: str, members: Sequence[Member]) -> tuple[Found | None, Tables, str | None]:
    """The operator's rule, what the built-in tables say, and the number's mark where a member leaves the process (None:
    not read), by one statement. Where that fails, and for APART_S after, each is asked by a statement of its own, and
    only if it is needed, so that what one table suffers from costs one slot."""
    started = time.monotonic()
    if started < Apart.until:
        return rules.find(number), Tables({}), None
    remote = any(member.guard for member in members)
    connectors = list(dict.fromkeys(member.connector for member in members if isinstance(member.connector, Table)))
    wanted = [rules.SELECT, *([marks.SELECT] if remote else []), *(connector.select for connector in connectors)]
    try:
        rule, *rows = selects.rows(wanted, number)
    except DatabaseError as error:
        log.warning("tables are read apart for %g s: reading them together failed (%s)", APART_S, type(error).__name__)
        Apart.until = time.monotonic() + APART_S
        return rules.find(number), Tables({}), None
    mark = marks.read(rows.pop(0)) if remote else None
    answers: dict[Connector, Callable[[], Answer]] = {
        connector: partial(connector.read, row) for connector, row in zip(connectors, rows, strict=True)
    }
    return rules.read(rule), Tables(answers, time.monotonic() - started), mark


def _ask_remote(inquiries: list[Inquiry], mark: str, deadline: float) -> None:
    """The slots' remote members, both slots at the same time; whoever has not answered in time has failed."""
    waiting = {inquiry: future for inquiry in inquiries if (future := inquiry.ask_remote(deadline, mark))}
    while waiting:
        first_due = min(inquiry.due for inquiry in waiting)
        # Woken for the first answer only where there may be another to ask after it.
        until = FIRST_COMPLETED if any(inquiry.may_ask_on for inquiry in waiting) else ALL_COMPLETED
        wait(set(waiting.values()), max(0.0, first_due - time.monotonic()), until)
        now = time.monotonic()
        for inquiry, future in list(waiting.items()):
            if future.done() or now >= inquiry.due:
                inquiry.take()
                del waiting[inquiry]
                if following := inquiry.ask_remote(deadline, mark):
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
