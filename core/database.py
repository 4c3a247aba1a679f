"""The SQL statements of a search, and those that write statistics, awaited on the event loop.

While serving PostgreSQL they run on a pool of asyncpg (core.postgresql.pool); on SQLite, and in commands and tests, on
Django's connection in a thread. Both raise django.db's errors, so that callers need not know which.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from django.db import OperationalError

from core import db, loop
from core.tracing import span

T = TypeVar("T")
Row = tuple[Any, ...]


class NotSent(OperationalError):
    """No connection could be had in time, so the statement has not run."""


class ConnectionLost(OperationalError):
    """The connection broke, or no reply came in time: whether the statement has run is unknown."""


class Backend(Protocol):
    def sizes(self) -> tuple[int, int, int]:
        """How many connections its pool has, how many of them are idle, and how many it may have. All 0 without one."""

    async def fetch(self, statement: str, parameters: Sequence[Any]) -> Sequence[Any]:
        """The rows, each a sequence. Raises NotSent, ConnectionLost, and other django.db errors for what the server
        refused."""


class DjangoConnection:
    def sizes(self) -> tuple[int, int, int]:
        return 0, 0, 0

    async def fetch(self, statement: str, parameters: Sequence[Any]) -> Sequence[Any]:
        return await loop.run_with_connection(partial(db.fetch, statement, parameters))


backend: Backend = DjangoConnection()


async def fetch(statement: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
    """The rows of one statement, which has %s for each parameter, and no %%. Raises as `Backend.fetch` does."""
    with span("database", **{"db.system.name": db.VENDOR, "db.query.text": statement}):
        return await backend.fetch(statement, parameters)


async def fetch_one(statement: str, parameters: Sequence[Any] = ()) -> Any:
    """The first row, or None."""
    rows = await fetch(statement, parameters)
    return rows[0] if rows else None


async def in_transaction(function: Callable[[], T]) -> T:
    """The result of `function`, which runs statements on Django's connection in a transaction: for SQLite."""
    return await loop.run_with_connection(function)
