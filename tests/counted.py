"""What searches count of their sources."""

from collections.abc import Iterable

import pytest

from lookup.answers import SourceCall
from monitoring import source_statistics


def counted_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, SourceCall]]:
    """Slot and call of each one that is counted from now on, in place of the statistics."""
    seen: list[tuple[str, SourceCall]] = []

    def count(slot: str, calls: Iterable[SourceCall], token_id: int | None) -> None:
        seen.extend((slot, call) for call in calls)

    monkeypatch.setattr(source_statistics, "count", count)
    return seen
