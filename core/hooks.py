"""Places of the kernel where add-ons register what they add."""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Hook(Generic[T]):
    """What is registered for one consumer, beside which it is declared. Iterating gives the items by their order, then
    as they were added. They are added when Django starts, and read when they are used: not while modules load."""

    def __init__(self) -> None:
        self._items: list[tuple[int, T]] = []

    def add(self, *items: T, order: int = 0) -> None:
        self._items += ((order, item) for item in items)
        self._items.sort(key=lambda each: each[0])

    def __iter__(self) -> Iterator[T]:
        return iter([item for _, item in self._items])
