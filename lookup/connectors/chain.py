"""A slot: its members in the written order, each field from the first member that knows it.

Local members run first, in the request's thread; remote ones afterwards, one after the other, each only while a field
that it can supply is not known to the rule or to a member that stands before it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector, asked, covers
from lookup.connectors.guard import LATE, Flight, Guard

#: What the statistics call an operator's rule that supplied a field. No connector can have this name: it has a space.
OPERATOR_RULES = "operator rules"
UNREADABLE = Failed("bad_response")
NO_TIME = Failed("no_time", "no time was left to ask it")


@dataclass(frozen=True, slots=True)
class Member:
    """`name`: the word that binds it. `guard`: of a remote one."""

    name: str
    connector: Connector
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one member's turn; `outcome`: `found`, `not_found`, `cached_found`, … or a failure's reason, after
    `shared_` when the call that failed was another search's. `elapsed_s`: None where nobody was asked. `hint`: of a
    failure, what an operator can do."""

    connector: str
    outcome: str
    elapsed_s: float | None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Tables:
    """Connectors whose rows have been read already, in `took_s` altogether: what reads each one's answer in them."""

    answers: Mapping[Connector, Callable[[], Answer]]
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Pending:
    index: int
    guard: Guard
    flight: Flight
    asked_at: float
    joined: bool


class Inquiry:
    """One search's state in one slot. Whoever is asked has failed until it answers, so that a late answer, or none, is
    never taken for "not found"."""

    def __init__(
        self, slot: str, members: Sequence[Member], fields: frozenset[str], number: str, rule: Found | None
    ) -> None:
        self.records: list[Record] = []
        #: When the pending member is given up: a time.monotonic() value.
        self.due = 0.0
        self._slot = slot
        self._members = members
        self._fields = fields
        self._number = number
        self._rule = rule.known() if rule else {}
        self._answers: list[Answer | None] = [None] * len(members)
        self._remote = [index for index, member in enumerate(members) if member.guard]
        self._pending: _Pending
        self._elapsed_s = 0.0
        if self._rule.keys() & fields:
            self.records.append(Record(OPERATOR_RULES, "found", None))

    def ask_local(self, deadline_s: float, tables: Tables) -> None:
        """Ask the local members that can still add something. Each slot has its own time: a slow one takes none of the
        other's. What is in `tables` is not asked again, and takes the time that reading them took."""
        started = time.monotonic()
        deadline = started + deadline_s
        for index, member in enumerate(self._members):
            if member.guard is None and self._can_add(index):
                asked_at = time.monotonic()
                read = tables.answers.get(member.connector)
                answer: Answer = NO_TIME
                if asked_at < deadline:
                    question = partial(member.connector.lookup, self._number, timeout_s=deadline - asked_at)
                    answer = asked(member.name, read or question)
                    answer = answer if time.monotonic() <= deadline else LATE
                if read:
                    asked_at -= tables.took_s
                    self._elapsed_s = tables.took_s
                self._note(index, answer, asked_at)
        self._elapsed_s += time.monotonic() - started

    def wants_remote(self) -> bool:
        return any(self._can_add(index) for index in self._remote)

    @property
    def may_ask_on(self) -> bool:
        """Whether remote members stand behind the pending one."""
        return bool(self._remote)

    def ask_remote(self, deadline: float, mark: str) -> Future[Answer] | None:
        """Ask the next remote members until one has to be waited for: its future. None when there is none left.
        `mark`: the number's (lookup.marks)."""
        while self._remote:
            index = self._remote.pop(0)
            guard = self._members[index].guard
            if guard is None or not self._can_add(index):
                continue
            asked_at = time.monotonic()
            if asked_at >= deadline:
                self._note(index, NO_TIME, asked_at)
                continue
            reply = guard.ask(self._slot, self._number, mark=mark, deadline=deadline)
            if reply.flight is None:
                self._note(index, reply.answer or LATE, asked_at, kept=True)
                continue
            patience_s = guard.connector.patience_s
            self.due = deadline if patience_s is None else min(deadline, asked_at + patience_s)
            self._pending = _Pending(index, guard, reply.flight, asked_at, reply.joined)
            return reply.flight.future
        return None

    def take(self) -> None:
        """The pending member has answered, or is waited for no longer."""
        pending = self._pending
        if pending.flight.future.done():
            answer = pending.flight.future.result()
            ended = max(pending.flight.ended, pending.asked_at)  # it may have been on its way before this search came
        else:
            answer, ended = LATE, time.monotonic()
            pending.guard.gave_up(pending.flight)
        self._note(pending.index, answer, pending.asked_at, ended, joined=pending.joined)
        self._elapsed_s += ended - pending.asked_at

    def result(self) -> tuple[Answer, float]:
        """Found when any field is known, Failed when none is and somebody could not tell, else NotFound; and the
        seconds that it took."""
        merged = self._merged(self._answers)
        known = {field: value for field, value in merged.items() if field in self._fields}
        if known:
            return Found(**known), self._elapsed_s
        failures = [answer for answer in self._answers if isinstance(answer, Failed)]
        if any(isinstance(answer, Found) and answer.unreadable & self._fields for answer in self._answers):
            failures.append(UNREADABLE)
        return failures[0] if failures else NotFound(), self._elapsed_s

    def _can_add(self, index: int) -> bool:
        """Whether this member can supply what neither the rule nor a member before it knows."""
        connector = self._members[index].connector
        missing = (connector.fields & self._fields) - self._merged(self._answers[:index]).keys()
        return bool(missing) and covers(self._members[index].name, connector, self._number)

    def _merged(self, answers: Sequence[Answer | None]) -> dict[str, Any]:
        merged = dict(self._rule)
        for answer in answers:
            if isinstance(answer, Found):
                merged = answer.known() | merged
        return merged

    def _note(
        self,
        index: int,
        answer: Answer,
        asked_at: float,
        ended: float | None = None,
        *,
        kept: bool = False,
        joined: bool = False,
    ) -> None:
        """`ended`: when the answer came; None: now. `kept`, `joined`: no call was made for this answer. What is counted
        tells, for calls may cost money."""
        self._answers[index] = answer
        hint = answer.hint if isinstance(answer, Failed) else ""
        if isinstance(answer, Failed):
            outcome = ("shared_" if joined else "") + answer.reason
        else:
            outcome = ("cached_" if kept or joined else "") + ("found" if isinstance(answer, Found) else "not_found")
        elapsed_s = (time.monotonic() if ended is None else ended) - asked_at
        self.records.append(Record(self._members[index].name, outcome, elapsed_s, hint))
