"""Searches as the guard's tests make them."""

import time
from collections.abc import Callable

from lookup.search import search
from tests.api import NUMBER


def words(number: str = NUMBER) -> tuple[str, str]:
    slots = search(number).slots
    return slots["source_a"].word, slots["source_b"].word


def numbers(count: int) -> list[str]:
    return [str(12025550000 + n) for n in range(count)]


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
