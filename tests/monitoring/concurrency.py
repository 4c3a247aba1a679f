"""Running one function in several threads at once, as several hosts would."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def in_threads(threads: int, function: Callable[[], T]) -> list[T]:
    """What each returns. They start at the same moment, each on a connection of its own."""
    barrier = Barrier(threads)

    def run(_: int) -> T:
        try:
            barrier.wait(30)
            return function()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
