"""Batches of rows whose sizes differ much: counted in bytes, not in rows."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def by_size(
    items: Iterable[Item], size_of: Callable[[Item], int], *, max_items: int, max_size: int
) -> Iterator[list[Item]]:
    """Lists of at most `max_items`, whose sizes are at most `max_size` together; a larger item is alone."""
    batch: list[Item] = []
    size = 0
    for item in items:
        own = size_of(item)
        if batch and (len(batch) >= max_items or size + own > max_size):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += own
    if batch:
        yield batch
