"""A search: the operator rule, then the local sources of both slots, then their vendors, under one deadline."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings

from core import admission, numbers
from lookup import pauses, signals
from lookup.answers import Answer, Failed, Found, NotFound, SourceCall
from lookup.connectors.base import call_connector, checked, covers
from lookup.connectors.registry import BoundSource, bind
from lookup.connectors.tables import TableConnector
from lookup.vendors import cache
from lookup.vendors.guard import LATE
from phonebook import cache_versions, rules
from phonebook.number_query import NumberQuery, NumberRows

log = logging.getLogger(__name__)

#: Each slot's name in the response, the setting that binds it, and the fields that it may have.
SLOTS = {
    "source_a": ("SOURCE_A", frozenset({"name", "location"})),
    "source_b": ("SOURCE_B", frozenset({"name", "spam"})),
}

#: In statistics, operator rules, and the numbering plan where it rules a number out.
#: No connector can have these names, because of the space.
RULES_SOURCE, PLAN_SOURCE = PSEUDO_SOURCES = ("operator rules", "numbering plan")
UNREADABLE = Failed("bad_response")
NO_TIME = Failed("no_time", "no time was left to call it")


class BothSlotsFailed(Exception):
    """Both slots failed: an outage must not be reported, and charged, as "not found"."""


@dataclass(frozen=True, slots=True)
class SlotResult:
    """`calls`: what the operator rule and each called source contributed, in the configured order; none in test mode.
    Sources that could not add a field are left out."""

    answer: Answer
    elapsed_s: float
    calls: tuple[SourceCall, ...] = ()

    @property
    def status(self) -> str:
        """`found`, `not-found` or `failed`."""
        return self.answer.outcome.replace("_", "-")

    def suppliers(self) -> dict[str, str]:
        """Field → the source that supplied it (`operator rules` for a rule), for each field of the answer."""
        found = [(call.connector, call.answer.known()) for call in self.calls if isinstance(call.answer, Found)]
        known = self.answer.known() if isinstance(self.answer, Found) else {}
        return {field: next(name for name, fields in found if field in fields) for field in known}


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`rule`: the operator rule for the number, if one has a field of a slot. `is_impossible`: no vendor was called,
    because the numbering plan rules the number out (CHARGE_IMPOSSIBLE)."""

    number: str
    slots: dict[str, SlotResult]
    rule: rules.Rule | None = None
    is_impossible: bool = False

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


class Slot:
    """What one search knows in one slot. Each field comes from the first source in the configured order that has it."""

    def __init__(self, sources: Sequence[BoundSource], fields: frozenset[str], number: str, rule: Found | None) -> None:
        #: How long this slot's sources took.
        self.elapsed_s = 0.0
        self._sources = sources
        self._fields = fields
        self._number = number
        ruled = rule.known().keys() & fields if rule else frozenset()
        self._rule_calls = (SourceCall(RULES_SOURCE, rule, None),) if rule and ruled else ()
        #: The fields that the operator rule leaves to the sources.
        self._open_fields = fields - ruled
        #: Whether each source covers the number, once that is known.
        self._covered: dict[int, bool] = {}
        #: By index of the source.
        self._source_calls: dict[int, SourceCall] = {}
        self._plan_calls: tuple[SourceCall, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether a local source may do more than read the rows that the search has read already."""
        return any(not (each.guard or isinstance(each.connector, TableConnector)) for each in self._sources)

    def due(self, *, remote: bool) -> Iterator[tuple[int, BoundSource]]:
        """Yield the sources to be called, each with its index. Those that cannot add a field are left out: it is known
        to the rule or to a source before them, or they do not cover the number."""
        for index, source in enumerate(self._sources):
            if (source.guard is not None) is remote and index not in self._source_calls and self._can_add(index):
                yield index, source

    def rule_out(self) -> None:
        """Have no vendor called: the number cannot exist."""
        self._plan_calls = (SourceCall(PLAN_SOURCE, NotFound("invalid_number"), None),)
        self._covered |= {index: False for index, source in enumerate(self._sources) if source.guard}

    def record(
        self, index: int, answer: Answer, elapsed_s: float, *, cached: bool = False, joined: bool = False
    ) -> None:
        """Keep an answer, one for each index. `cached` and `joined`: as in SourceCall."""
        self._source_calls[index] = SourceCall(self._sources[index].name, answer, elapsed_s, cached, joined)

    def calls(self) -> tuple[SourceCall, ...]:
        """The operator rule, the sources that were called, in the configured order, and the numbering plan."""
        called = (self._source_calls[index] for index in sorted(self._source_calls))
        return (*self._rule_calls, *called, *self._plan_calls)

    def answer(self) -> Answer:
        """Found when any field is known, Failed when none is known and a source failed, otherwise NotFound."""
        answers = [call.answer for call in self.calls()]
        known: dict[str, Any] = {}
        for answer in reversed(answers):
            if isinstance(answer, Found):
                known |= answer.known()
        if supplied := {field: value for field, value in known.items() if field in self._fields}:
            return Found(**supplied)
        failures = [answer for answer in answers if isinstance(answer, Failed)]
        if any(isinstance(answer, Found) and answer.unreadable & self._fields for answer in answers):
            failures.append(UNREADABLE)
        return failures[0] if failures else NotFound()

    def _can_add(self, index: int) -> bool:
        source = self._sources[index]
        earlier = [call.answer for i, call in self._source_calls.items() if i < index]
        known = {field for answer in earlier if isinstance(answer, Found) for field in answer.known()}
        if source.connector.fields & self._open_fields <= known:
            return False
        if index not in self._covered:
            self._covered[index] = covers(source.name, source.connector, self._number)
        return self._covered[index]


async def search(
    number: str, rows: NumberRows | None = None, token_id: int | None = None, deadline: float | None = None
) -> SearchResult:
    """Look `number` up in both slots. A slot that misses the deadline has failed.

    `rows`: those of `queries`, if they were read already. `token_id`: of the token that searches, if any. `deadline`:
    by time.monotonic; SEARCH_DEADLINE_S from now by default.
    """
    bound = {name: bound_sources(name) for name in SLOTS}
    deadline = time.monotonic() + settings.SEARCH_DEADLINE_S if deadline is None else deadline
    if rows is None:
        rows = NumberRows(number)
        await rows.read(queries())
    rule, paused = await rules.find(rows), await pauses.process_pauses.names()
    ruled = Found(name=rule.name, spam=rule.spam) if rule else None
    slots = {name: Slot(bound[name], fields, number, ruled) for name, (_, fields) in SLOTS.items()}
    for slot in slots.values():
        if not slot.waits:
            await _call_local(slot, number, rows, paused, deadline)
    await _at_once([_call_local(slot, number, rows, paused, deadline) for slot in slots.values() if slot.waits])
    is_impossible = not settings.CHARGE_IMPOSSIBLE and not numbers.in_plan(number)
    for slot in slots.values() if is_impossible else ():
        slot.rule_out()
    if waiting := [slot for slot in slots.values() if any(slot.due(remote=True))]:
        # Read before any vendor is called: then no older cached answer is used.
        version = await cache_versions.find(rows)
        with admission.searches.released():
            await _call_vendors(waiting, number, version, deadline, paused)
    results = {name: SlotResult(slot.answer(), slot.elapsed_s, slot.calls()) for name, slot in slots.items()}
    signals.searched.send_robust(None, slots=results, token_id=token_id)
    return SearchResult(number, results, rule, is_impossible)


def bound_sources(slot: str) -> tuple[BoundSource, ...]:
    """The connectors that `slot` is bound to. Raises ImproperlyConfigured."""
    setting, fields = SLOTS[slot]
    return bind(setting, getattr(settings, setting), fields)


def queries() -> tuple[NumberQuery, ...]:
    """What a search reads from tables: the operator rule, the cache version if a vendor may be called, and what the
    table connectors read."""
    bound = [source for slot in SLOTS for source in bound_sources(slot)]
    queries = [rules.QUERY]
    if any(source.guard for source in bound):
        queries.append(cache_versions.QUERY)
    queries += [source.connector.query for source in bound if isinstance(source.connector, TableConnector)]
    return tuple(dict.fromkeys(queries))


async def _at_once(calls: list[Coroutine[Any, Any, None]]) -> None:
    """Await them at the same time, so that a slow slot takes no time from the other."""
    tasks = [asyncio.create_task(call) for call in calls[1:]]
    try:
        for each in (*calls[:1], *tasks):
            await each
    finally:
        for task in tasks:
            task.cancel()


async def _call_local(slot: Slot, number: str, rows: NumberRows, paused: frozenset[str], deadline: float) -> None:
    """Call the slot's local sources except those that are paused."""
    started = time.monotonic()
    for index, source in slot.due(remote=False):
        called_at = time.monotonic()
        answer = await _local_answer(source, number, rows, paused, deadline)
        elapsed_s = time.monotonic() - called_at
        if isinstance(source.connector, TableConnector) and source.connector.query in rows:
            elapsed_s += rows.elapsed_s
            slot.elapsed_s = rows.elapsed_s
        slot.record(index, answer, elapsed_s)
    slot.elapsed_s += time.monotonic() - started


async def _local_answer(
    source: BoundSource, number: str, rows: NumberRows, paused: frozenset[str], deadline: float
) -> Answer:
    timeout_s = deadline - time.monotonic()
    if source.name in paused:
        return pauses.PAUSED
    if timeout_s <= 0:
        return NO_TIME
    if isinstance(source.connector, TableConnector):
        answer = await checked(source.name, partial(source.connector.read, rows))
    else:
        answer = await call_connector(source.name, source.connector, number, timeout_s=timeout_s)
    return answer if time.monotonic() <= deadline else LATE


async def _call_vendors(slots: list[Slot], number: str, version: str, deadline: float, paused: frozenset[str]) -> None:
    """Use the cached answers, also of paused vendors, and call the other vendors, those of all slots at the same time.
    `version`: the number's cache version."""
    due = [source for slot in slots for _, source in slot.due(remote=True)]
    keys = {source.name: source.guard.key(number, version) for source in due if source.guard}
    cached = await cache.answers.get(list(keys.values()))
    await _at_once([_call_in_turn(slot, number, keys, cached, paused, deadline) for slot in slots])


async def _call_in_turn(
    slot: Slot,
    number: str,
    keys: Mapping[str, str],
    cached: Mapping[str, Answer],
    paused: frozenset[str],
    deadline: float,
) -> None:
    """Call the slot's vendors, one after the other. `keys`: of the cache, by source. `cached`: the answers, by key."""
    for index, source in slot.due(remote=True):
        asked_at = time.monotonic()
        key = keys[source.name]
        if key in cached:
            slot.record(index, cached[key], 0.0, cached=True)
        elif source.name in paused:
            slot.record(index, pauses.PAUSED, 0.0)
        elif asked_at >= deadline:
            slot.record(index, NO_TIME, 0.0)
        elif source.guard:
            answer, joined = await source.guard.lookup(number, key=key, deadline=deadline)
            elapsed_s = time.monotonic() - asked_at
            slot.record(index, answer, elapsed_s, joined=joined)
            slot.elapsed_s += elapsed_s
