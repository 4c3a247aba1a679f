"""What searches count of their sources."""

from collections.abc import Iterable

import pytest

from lookup.answers import MemberCall
from monitoring import source_statistics


def counted_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, MemberCall]]:
    """Slot and call of each one that is counted from now on, in place of the statistics."""
    seen: list[tuple[str, MemberCall]] = []

    def count(slot: str, calls: Iterable[MemberCall]) -> None:
        seen.extend((slot, call) for call in calls)

    monkeypatch.setattr(source_statistics, "count", count)
    return seen
