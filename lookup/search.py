"""A search: the operator rule, then the local members of both slots, then their vendors, under one deadline."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings

from lookup import cache_versions, pauses, rules, statistics
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.combined_query import NumberQuery, NumberRows
from lookup.connectors.base import call_local, checked, raised
from lookup.connectors.registry import Member, bind
from lookup.connectors.table import TableConnector
from lookup.slot import Slot
from lookup.statistics import MemberCall
from lookup.vendors import cache
from lookup.vendors.guard import LATE

log = logging.getLogger(__name__)

#: Each slot's name in the response, the setting that binds it, and the fields that it may have.
SLOTS = {
    "source_a": ("SOURCE_A", frozenset({"name", "location"})),
    "source_b": ("SOURCE_B", frozenset({"name", "spam"})),
}

NO_TIME = Failed("no_time", "no time was left to call it")

_STATUSES = {Found: "found", NotFound: "not-found", Failed: "failed"}


class AllSourcesFailed(Exception):
    """Both slots failed: an outage must not be reported, and charged, as "not found"."""


@dataclass(frozen=True, slots=True)
class SlotResult:
    """`calls`: what the operator rule and each called member contributed, in the configured order; none in test mode.
    Members that could not add a field are left out."""

    answer: Answer
    elapsed_s: float
    calls: tuple[MemberCall, ...] = ()

    @property
    def status(self) -> str:
        """`found`, `not-found` or `failed`."""
        return _STATUSES[type(self.answer)]

    def suppliers(self) -> dict[str, str]:
        """Field → the member that supplied it (`operator rules` for a rule), for each field of the answer."""
        known = self.answer.known() if isinstance(self.answer, Found) else {}
        found = [(call.connector, call.answer.known()) for call in self.calls if isinstance(call.answer, Found)]
        first = {field: next((name for name, fields in found if field in fields), None) for field in known}
        return {field: name for field, name in first.items() if name is not None}


@dataclass(frozen=True, slots=True)
class SearchResult:
    number: str
    slots: dict[str, SlotResult]

    @property
    def found(self) -> int:
        """Number of slots that found something."""
        return sum(isinstance(slot.answer, Found) for slot in self.slots.values())

    @property
    def degraded(self) -> bool:
        """Whether at least one slot failed."""
        return any(isinstance(slot.answer, Failed) for slot in self.slots.values())

    @property
    def failed(self) -> bool:
        """Whether all slots failed."""
        return all(isinstance(slot.answer, Failed) for slot in self.slots.values())


async def search(number: str, rows: NumberRows | None = None) -> SearchResult:
    """Look `number` up in both slots within SEARCH_DEADLINE_S. A slot that misses the deadline has failed.

    `rows`: those of `queries`, if they were read already.
    """
    deadline = time.monotonic() + settings.SEARCH_DEADLINE_S
    bound = {name: members(name) for name in SLOTS}
    if rows is None:
        rows = await NumberRows.read(number, queries())
    rule, paused = await rules.find(rows), await pauses.process_pauses.names()
    slots = {name: Slot(bound[name], fields, number, rule) for name, (_, fields) in SLOTS.items()}
    for slot in slots.values():
        await _call_local(slot, number, rows, paused)
    if any(slot.needs_vendor() for slot in slots.values()):
        # Read before any vendor is called: then no older cached answer is used.
        version = await cache_versions.find(rows)
        await _call_vendors(list(slots.values()), number, version, deadline, paused)
    results = {name: SlotResult(slot.answer(), slot.elapsed_s, slot.calls()) for name, slot in slots.items()}
    for name, result in results.items():
        statistics.count(name, result.calls)
    return SearchResult(number, results)


def members(slot: str) -> tuple[Member, ...]:
    """The connectors that `slot` is bound to. Raises ImproperlyConfigured."""
    setting, fields = SLOTS[slot]
    return bind(setting, getattr(settings, setting), fields)


def queries() -> tuple[NumberQuery, ...]:
    """What a search reads from tables: the operator rule, the cache version if a vendor may be called, and what the
    table connectors read."""
    return _queries(*map(members, SLOTS))


@lru_cache(maxsize=16)
def _queries(*slots: tuple[Member, ...]) -> tuple[NumberQuery, ...]:
    bound = [member for members in slots for member in members]
    queries = [rules.QUERY]
    if any(member.guard for member in bound):
        queries.append(cache_versions.QUERY)
    queries += [member.connector.query for member in bound if isinstance(member.connector, TableConnector)]
    return tuple(dict.fromkeys(queries))


async def _call_local(slot: Slot, number: str, rows: NumberRows, paused: frozenset[str]) -> None:
    """Call the slot's local members except those that are paused. Each slot has SEARCH_DEADLINE_S of its own, so that a
    slow slot takes no time from the other."""
    started = time.monotonic()
    deadline = started + settings.SEARCH_DEADLINE_S
    for index, member in slot.due(remote=False):
        connector, asked_at = member.connector, time.monotonic()
        if member.name in paused:
            slot.record(index, pauses.PAUSED, 0.0)
            continue
        timeout_s = deadline - asked_at
        answer: Answer
        if timeout_s <= 0:
            answer = NO_TIME
        elif isinstance(connector, TableConnector):
            answer = await _read(member.name, connector, rows)
        else:
            answer = await call_local(member.name, connector, number, timeout_s=timeout_s)
        now = time.monotonic()
        elapsed_s = now - asked_at
        if isinstance(connector, TableConnector) and connector.query in rows:
            elapsed_s += rows.elapsed_s
            slot.elapsed_s = rows.elapsed_s
        slot.record(index, LATE if timeout_s > 0 and now > deadline else answer, elapsed_s)
    slot.elapsed_s += time.monotonic() - started


async def _read(name: str, connector: TableConnector, rows: NumberRows) -> Answer:
    try:
        return checked(name, await connector.read(rows))
    except Exception as error:
        return raised(name, error)


async def _call_vendors(slots: list[Slot], number: str, version: str, deadline: float, paused: frozenset[str]) -> None:
    """Use the cached answers, and call the vendors for the others, except those that are paused. `version`: the
    number's cache version."""
    due = [member for slot in slots for _, member in slot.due(remote=True)]
    keys = {member.name: member.guard.key(number, version) for member in due if member.guard}
    cached: dict[str, Answer] = {keys[name]: pauses.PAUSED for name in keys.keys() & paused}
    cached |= await cache.answers.get(list(keys.values()))
    for slot in slots if cached else ():
        for index, member in slot.due(remote=True):
            if (answer := cached.get(keys[member.name])) is None:
                break
            slot.record(index, answer, 0.0, cached=True)
    if waiting := [slot for slot in slots if slot.needs_vendor()]:
        await _at_once(waiting, number, keys, cached, deadline)


async def _at_once(
    slots: list[Slot], number: str, keys: Mapping[str, str], cached: Mapping[str, Answer], deadline: float
) -> None:
    calls = [_call_in_turn(slot, number, keys, cached, deadline) for slot in slots]
    tasks = [asyncio.create_task(call) for call in calls[1:]]
    await calls[0]
    for task in tasks:
        await task


async def _call_in_turn(
    slot: Slot, number: str, keys: Mapping[str, str], cached: Mapping[str, Answer], deadline: float
) -> None:
    """Call the slot's vendors, one after the other. `keys`: by member. `cached`: the answers that need no call."""
    for index, member in slot.due(remote=True):
        asked_at = time.monotonic()
        if (answer := cached.get(keys[member.name])) is not None:
            slot.record(index, answer, 0.0, cached=True)
        elif asked_at >= deadline:
            slot.record(index, NO_TIME, 0.0)
        elif member.guard:
            slot.called(index)
            result = await member.guard.lookup(number, key=keys[member.name], deadline=deadline)
            slot.record(index, result.answer, result.at - asked_at, joined=result.joined)
            slot.elapsed_s += result.at - asked_at
