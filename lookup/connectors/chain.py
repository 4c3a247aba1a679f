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


class Inquiry:
    """One search's state in one slot. A late remote answer may still arrive in it; nobody looks by then."""

    def __init__(self, members: Sequence[Connector], fields: frozenset[str], number: str, rule: Found | None) -> None:
        self._members = members
        self._fields = fields
        self._number = number
        self._rule = rule.known() if rule else {}
        self._answers: list[Answer | None] = [None] * len(members)
        self._late = False
        self.elapsed_s = 0.0

    def ask_local(self, deadline: float) -> None:
        """Ask the local members that can still add something. `deadline`: a time.monotonic() value."""
        self._ask([i for i, member in enumerate(self._members) if not member.remote], deadline)

    def wants_remote(self) -> bool:
        return any(member.remote and self._open_fields(i) for i, member in enumerate(self._members))

    def ask_remote(self, deadline: float) -> None:
        """Ask the remote members in order, as long as there is time."""
        self._ask([i for i, member in enumerate(self._members) if member.remote], deadline)

    def missed_deadline(self, waited_s: float) -> None:
        self._late = True
        self.elapsed_s += waited_s

    def result(self) -> Answer:
        """Found when any field is known; Failed when none is and somebody could not tell; else NotFound."""
        answers = list(self._answers)
        known = {field: value for field, value in self._merged(answers).items() if field in self._fields}
        if known:
            return Found(**known)
        failures = [answer for answer in answers if isinstance(answer, Failed)]
        if self._late:
            failures.append(Failed("deadline"))
        return failures[0] if failures else NotFound()

    def _merged(self, answers: Sequence[Answer | None]) -> dict[str, Any]:
        merged = dict(self._rule)
        for answer in answers:
            if isinstance(answer, Found):
                merged = {**answer.known(), **merged}
        return merged

    def _open_fields(self, index: int) -> frozenset[str]:
        member = self._members[index]
        return (member.fields & self._fields) - self._merged(self._answers[:index]).keys()

    def _ask(self, indexes: Sequence[int], deadline: float) -> None:
        started = time.monotonic()
        for index in indexes:
            timeout_s = deadline - time.monotonic()
            if self._open_fields(index):
                self._answers[index] = self._answer(index, timeout_s) if timeout_s > 0 else Failed("deadline")
        self.elapsed_s += time.monotonic() - started

    def _answer(self, index: int, timeout_s: float) -> Answer:
        member = self._members[index]
        try:
            answer = member.lookup(self._number, timeout_s=timeout_s)
        except Exception as error:
            # Its message may hold a number, a name or a key: the type has to do.
            log.warning("source failed: connector=%s error=%s", type(member).__name__, type(error).__name__)
            return Failed("error")
        if not isinstance(answer, Answer):
            log.warning("source failed: connector=%s error=answer of another type", type(member).__name__)
            return Failed("contract")
        return answer
