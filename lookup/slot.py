"""A slot: its sources in the configured order; each field comes from the first source that knows it."""

from collections.abc import Iterator, Sequence
from typing import Any

from lookup.answers import Answer, Failed, Found, NotFound, SourceCall
from lookup.connectors.base import covers
from lookup.connectors.registry import BoundSource

#: The name of operator rules in the statistics. No connector can have it, because of the space.
RULES_SOURCE = "operator rules"
UNREADABLE = Failed("bad_response")


class Slot:
    """What one search knows in one slot."""

    def __init__(self, sources: Sequence[BoundSource], fields: frozenset[str], number: str, rule: Found | None) -> None:
        #: How long this slot's sources took.
        self.elapsed_s = 0.0
        self._sources = sources
        self._fields = fields
        self._number = number
        #: Whether each source covers the number, once that is known.
        self._covered: dict[int, bool] = {}
        #: By index of the source; -1 is the operator rule.
        self._calls: dict[int, SourceCall] = {}
        if rule and rule.known().keys() & fields:
            self._calls[-1] = SourceCall(RULES_SOURCE, rule, None)

    def due(self, *, remote: bool) -> Iterator[tuple[int, BoundSource]]:
        """Yield the sources to be called, each with its index. Those that cannot add a field are left out: it is known
        to the rule or to a source before them, or they do not cover the number."""
        for index, source in enumerate(self._sources):
            if (source.guard is not None) is remote and index not in self._calls and self._can_add(index):
                yield index, source

    def needs_vendor(self) -> bool:
        """Whether a remote source is to be called."""
        return next(self.due(remote=True), None) is not None

    def record(
        self, index: int, answer: Answer, elapsed_s: float, *, cached: bool = False, joined: bool = False
    ) -> None:
        """Keep an answer, one for each index. `cached` and `joined`: as in SourceCall."""
        self._calls[index] = SourceCall(self._sources[index].name, answer, elapsed_s, cached, joined)

    def calls(self) -> tuple[SourceCall, ...]:
        """The operator rule, then the sources that were called, in the configured order."""
        return tuple(self._calls[index] for index in sorted(self._calls))

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
        if all(self._is_known(field, before=index) for field in source.connector.fields & self._fields):
            return False
        if index not in self._covered:
            self._covered[index] = covers(source.name, source.connector, self._number)
        return self._covered[index]

    def _is_known(self, field: str, *, before: int) -> bool:
        """Whether the operator rule or a source before this index knows it."""
        return any(i < before and getattr(call.answer, field, None) is not None for i, call in self._calls.items())
