"""A slot: its members in the written order, each field from the first member that knows it.

Local members run first, in the request's thread; remote ones afterwards, in a thread of the slot's, and only while a
field that they can supply is not known to the rule or to a member that stands before them.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector

log = logging.getLogger(__name__)

LATE = Failed("deadline")


class Inquiry:
    """One search's state in one slot. Whoever is asked has failed until it answers, so that a late answer, or none, is
    never taken for "not found"."""

    def __init__(self, members: Sequence[Connector], fields: frozenset[str], number: str, rule: Found | None) -> None:
        self._members = members
        self._fields = fields
        self._number = number
        self._rule = rule.known() if rule else {}
        self._answers: list[Answer | None] = [None] * len(members)
        self._local_s = 0.0
        self._remote_started: float | None = None
        self._remote_ended: float | None = None

    def ask_local(self, deadline_s: float) -> None:
        """Ask the local members that can still add something. Each slot has its own time: a slow one takes none of the
        other's."""
        started = time.monotonic()
        for index, member in enumerate(self._members):
            if not member.remote and self._open_fields(index):
                self._answer(index, started + deadline_s)
        self._local_s = time.monotonic() - started

    def wants_remote(self) -> bool:
        return bool(self._remote_indexes())

    def expect_remote(self) -> None:
        """Before the remote members are asked in another thread: from here on each has failed until it answers."""
        self._remote_started = time.monotonic()
        for index in self._remote_indexes():
            self._answers[index] = LATE

    def ask_remote(self, deadline: float) -> None:
        """Ask the remote members in order. `deadline`: a time.monotonic() value."""
        for index in self._remote_indexes():
            if self._open_fields(index):
                self._answer(index, deadline)
            else:
                self._answers[index] = None
        self._remote_ended = time.monotonic()

    def result(self) -> tuple[Answer, float]:
        """Found when any field is known, Failed when none is and somebody could not tell, else NotFound; and the
        seconds that it took."""
        elapsed_s = self._local_s
        if self._remote_started is not None:
            elapsed_s += (self._remote_ended or time.monotonic()) - self._remote_started
        answers = list(self._answers)
        known = {field: value for field, value in self._merged(answers).items() if field in self._fields}
        if known:
            return Found(**known), elapsed_s
        failures = [answer for answer in answers if isinstance(answer, Failed)]
        return failures[0] if failures else NotFound(), elapsed_s

    def _remote_indexes(self) -> list[int]:
        """Of the remote members that were asked or can still add something."""
        return [
            index
            for index, member in enumerate(self._members)
            if member.remote and (self._answers[index] is not None or self._open_fields(index))
        ]

    def _open_fields(self, index: int) -> frozenset[str]:
        """What this member can supply and neither the rule nor a member before it knows."""
        return (self._members[index].fields & self._fields) - self._merged(self._answers[:index]).keys()

    def _merged(self, answers: Sequence[Answer | None]) -> dict[str, Any]:
        merged = dict(self._rule)
        for answer in answers:
            if isinstance(answer, Found):
                merged = {**answer.known(), **merged}
        return merged

    def _answer(self, index: int, deadline: float) -> None:
        self._answers[index] = LATE
        if (timeout_s := deadline - time.monotonic()) > 0:
            answer = self._asked(self._members[index], timeout_s)
            if time.monotonic() <= deadline:
                self._answers[index] = answer

    def _asked(self, member: Connector, timeout_s: float) -> Answer:
        try:
            answer = member.lookup(self._number, timeout_s=timeout_s)
        except BaseException as error:  # asyncio.CancelledError and SystemExit are no Exceptions, yet failures too
            # Its message may hold a number, a name or a key: the type has to do.
            log.warning("source failed: connector=%s error=%s", type(member).__name__, type(error).__name__)
            return Failed("error")
        if not isinstance(answer, Answer):
            log.warning("source failed: connector=%s error=answer of another type", type(member).__name__)
            return Failed("contract")
        return answer
