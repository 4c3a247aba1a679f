"""What the answers of sources are worth: each is asked about numbers whose truth is known, and compared with it."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

import msgspec
from django.conf import settings

from core.hashing import keyed_hash
from core.text import clean_text
from lookup import source_actions
from lookup.answers import REFUSALS, Answer, Failed, Found, NotFound, SourceCall
from lookup.connectors.base import covers
from lookup.connectors.registry import BoundSource
from lookup.search import SLOTS, Slot, bound_sources
from lookup.vendors.guard import LATE


class Truth(NamedTuple):
    """`name`: by `name_hash`; None if it is unknown."""

    spam: bool
    name: str | None = None


def name_hash(name: str | None) -> str | None:
    """The same for names that differ in case and white space only; None for no name."""
    cleaned = clean_text(name or "").casefold()
    return keyed_hash("evaluated name", cleaned).hex() if cleaned else None


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A source's answer about one number, to be kept in a file: without the number, its name and its place. `key`: see
    `_key`. `outcome`: as SourceCall.outcome. `name`: by `name_hash`. `location`: whether it is known."""

    source: str
    key: str
    outcome: str
    ms: float
    spam: bool | None = None
    name: str | None = None
    location: bool = False
    unreadable: tuple[str, ...] = ()

    @property
    def answer(self) -> Answer:
        """It has the hash in place of the name."""
        if self.outcome == NotFound.outcome:
            return NotFound()
        if self.spam is None and self.name is None and not self.location:
            return Failed(self.outcome)
        return Found(self.name, "known" if self.location else None, self.spam, frozenset(self.unreadable))

    def cost(self, price: Decimal | None) -> Decimal | None:
        """Of the call, which has this `price` unless the vendor refused it."""
        return Decimal(0) if self.outcome in REFUSALS else price


def _key(source: BoundSource, number: str) -> str:
    """A keyed hash of the number. As in the cache, an edited preset is asked again."""
    return keyed_hash("evaluation", f"{source.name}:{source.connector.version}:{number}").hex()


def _is_failure(answer: Answer) -> bool:
    return isinstance(answer, Failed) or (isinstance(answer, Found) and bool(answer.unreadable))


class Result(NamedTuple):
    """About one number. `ms`: None if no call was made. `cost`: None if a price is not set."""

    truth: Truth
    answer: Answer = NotFound()
    ms: float | None = None
    cost: Decimal | None = Decimal(0)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of all numbers. Shares are from 0 to 1, and None if there is nothing to divide by.

    `called`: numbers with a call. `known`: share of the numbers with a spam verdict. `precision`: share of the verdicts
    "spam" that are true. `recall`: share of the spam numbers with that verdict. `agreement`: share of all verdicts that
    are true. `names`: share of equal names, of the numbers with both. `cost`: for each number; None if a price is not
    set.
    """

    called: int
    known: float | None
    precision: float | None
    recall: float | None
    agreement: float | None
    names: float | None
    failures: int
    cost: Decimal | None
    p50_ms: float | None
    p95_ms: float | None


def figures(results: Sequence[Result]) -> Figures:
    verdicts = [(result.truth.spam, getattr(result.answer, "spam", None)) for result in results]
    names = [(result.truth.name, getattr(result.answer, "name", None)) for result in results]
    known = [(truth, verdict) for truth, verdict in verdicts if verdict is not None]
    durations = sorted(result.ms for result in results if result.ms is not None)
    cost = _total([result.cost for result in results])
    return Figures(
        called=len(durations),
        known=_share([verdict is not None for _, verdict in verdicts]),
        precision=_share([truth for truth, verdict in known if verdict]),
        recall=_share([bool(verdict) for truth, verdict in verdicts if truth]),
        agreement=_share([truth is verdict for truth, verdict in known]),
        names=_share([truth == name for truth, name in names if truth and name]),
        failures=sum(_is_failure(result.answer) for result in results),
        cost=cost and round(cost / len(results), 6),
        p50_ms=_percentile(durations, 0.5),
        p95_ms=_percentile(durations, 0.95),
    )


def _share(hits: Sequence[bool]) -> float | None:
    return round(sum(hits) / len(hits), 4) if hits else None


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    """By nearest rank."""
    return round(ordered[math.ceil(share * len(ordered)) - 1], 1) if ordered else None


def _total(costs: Sequence[Decimal | None]) -> Decimal | None:
    return None if None in costs else sum(filter(None, costs), Decimal(0))


class Evaluation:
    """The configured sources, and their replies about the numbers of `truths`. `kept`: replies of earlier runs, by key.
    Raises ImproperlyConfigured."""

    def __init__(self, truths: Mapping[str, Truth], kept: Mapping[str, Reply]) -> None:
        self.sources = source_actions.configured()
        #: The numbers about which each source is still to be asked: those that it covers.
        self.due: dict[str, list[str]] = {name: [] for name in self.sources}
        #: Set it to make no further call.
        self.stopped = False
        self._truths = truths
        #: By source and number.
        self._replies: dict[tuple[str, str], Reply] = {}
        for name, source in self.sources.items():
            for number in truths:
                reply = kept.get(_key(source, number))
                if reply and not _is_failure(reply.answer):
                    self._replies[name, number] = reply
                elif covers(name, source.connector, number):
                    self.due[name].append(number)

    @property
    def failed(self) -> int:
        """How many calls failed."""
        return sum(_is_failure(reply.answer) for reply in self._replies.values())

    def price(self, name: str) -> Decimal | None:
        """Of a call, in the first slot that has a price for the source; None if none has."""
        source = self.sources[name]
        prices = [_price(slot, source) for slot in SLOTS if source in bound_sources(slot)]
        return next((price for price in prices if price is not None), None)

    async def ask(self, on_reply: Callable[[Reply], object]) -> None:
        """Ask each source what is due: as many numbers at once as its concurrency limit allows, and a local one number
        by number. Raises what `on_reply` raises."""

        async def work(source: BoundSource, due: Iterator[str]) -> None:
            for number in due:
                if self.stopped:
                    return
                started = time.monotonic()
                answer = await source_actions.ask(source, number)
                reply = _reply(source, number, answer, time.monotonic() - started)
                self._replies[source.name, number] = reply
                on_reply(reply)

        tasks = []
        for name, source in self.sources.items():
            due = iter(self.due[name])
            tasks += [work(source, due) for _ in range(source.connector.concurrency if source.connector.remote else 1)]
        try:
            await asyncio.gather(*tasks)
        finally:
            self.stopped = True

    def of_source(self, name: str) -> Figures:
        return figures([self._result(name, number, truth) for number, truth in self._truths.items()])

    def of_slot(self, slot: str) -> Figures:
        """Of what a search finds in the slot, without operator rules and cache."""
        return figures([self._slot_result(slot, number, truth) for number, truth in self._truths.items()])

    def _result(self, name: str, number: str, truth: Truth) -> Result:
        if (reply := self._replies.get((name, number))) is None:
            return Result(truth)
        answer, _ = _waited(self.sources[name], reply, settings.SEARCH_DEADLINE_S)
        return Result(truth, answer, reply.ms, reply.cost(self.price(name)))

    def _slot_result(self, name: str, number: str, truth: Truth) -> Result:
        slot = Slot(bound_sources(name), SLOTS[name][1], number, None)
        costs: list[Decimal | None] = []
        for index, source in chain(slot.due(remote=False), slot.due(remote=True)):
            if (left_s := settings.SEARCH_DEADLINE_S - slot.elapsed_s) <= 0:
                break
            reply = self._replies[source.name, number]
            answer, elapsed_s = _waited(source, reply, left_s)
            slot.record(index, answer, elapsed_s)
            slot.elapsed_s += elapsed_s
            costs.append(reply.cost(_price(name, source)))
        ms = slot.elapsed_s * 1000 if costs else None
        return Result(truth, slot.answer(), ms, _total(costs))


def _reply(source: BoundSource, number: str, answer: Answer, elapsed_s: float) -> Reply:
    outcome = SourceCall(source.name, answer, elapsed_s).outcome
    reply = Reply(source.name, _key(source, number), outcome, round(elapsed_s * 1000, 1))
    if not isinstance(answer, Found):
        return reply
    known = {"spam": answer.spam, "name": name_hash(answer.name), "location": answer.location is not None}
    return msgspec.structs.replace(reply, **known, unreadable=tuple(answer.unreadable))


def _price(slot: str, source: BoundSource) -> Decimal | None:
    return source_actions.call_price(slot, source.name, remote=source.connector.remote)


def _waited(source: BoundSource, reply: Reply, left_s: float) -> tuple[Answer, float]:
    """What a search with so much time left gets, and for how long it waits."""
    wait_s, elapsed_s = min(left_s, source.connector.max_wait_s or left_s), reply.ms / 1000
    return (reply.answer, elapsed_s) if elapsed_s <= wait_s else (LATE, wait_s)
