"""What searches count of their sources."""

from collections.abc import Iterable

import pytest

from lookup import statistics
from lookup.statistics import MemberCall


def counted_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, MemberCall]]:
    """Slot and call of each one that is counted from now on, in place of the statistics."""
    seen: list[tuple[str, MemberCall]] = []

    def count(slot: str, calls: Iterable[MemberCall]) -> None:
        seen.extend((slot, call) for call in calls)

    monkeypatch.setattr(statistics, "count", count)
    return seen
