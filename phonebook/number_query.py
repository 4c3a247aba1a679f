"""Queries about one number, run together in one statement.

A round trip to the database costs a search more than the rows it fetches. So the queries of the token, of the operator
rule, of the cache version and of the table connectors run as one statement.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import DatabaseError

from core.database_errors import NotSent, describe
from core.db import Row, afetch_one

log = logging.getLogger(__name__)

#: How long queries run separately after the combined statement has failed.
RETRY_AFTER_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class NumberQuery:
    """A query with at most one row. `columns`: how many it selects, of which at least one is not NULL. `parameters`:
    returns the statement's parameters for a number: by default its digits as an integer."""

    statement: str
    columns: int
    parameters: Callable[[str], Sequence[Any]] = lambda number: [int(number)]

    async def row(self, number: str) -> Row | None:
        """The row. None also for a row of NULLs: the sum over no rows."""
        return _known(await afetch_one(self.statement, self.parameters(number)) or ())


class CombinedStatement:
    """Whether searches run their queries as one statement: not for RETRY_AFTER_S after it failed."""

    def __init__(self) -> None:
        self._retry_at = 0.0

    @property
    def is_used(self) -> bool:
        return time.monotonic() >= self._retry_at

    def record_failure(self, error: DatabaseError) -> None:
        log.warning("combined query failed; separate queries for %g s (%s)", RETRY_AFTER_S, describe(error))
        self._retry_at = time.monotonic() + RETRY_AFTER_S


#: As this process knows it. Tests replace it.
combined_statement = CombinedStatement()


class NumberRows:
    """The rows of several queries about one number, read by one statement. If that fails, each query runs by itself
    when its row is asked for, and so do those of all searches for RETRY_AFTER_S: a fault of one table costs only the
    slot that needs it."""

    def __init__(self, number: str) -> None:
        self._number = number
        self._rows: dict[NumberQuery, Row | None] = {}
        #: How long the statement took.
        self.elapsed_s = 0.0

    async def read(
        self, queries: tuple[NumberQuery, ...], statement: str = "", parameters: Sequence[Any] = ()
    ) -> Row | None:
        """Read the rows, and return the first row of another `statement`. Raises NotSent, and what django.db raises
        for that statement alone; queries that failed otherwise run again in `get`."""
        started = time.monotonic()
        if combined_statement.is_used:
            try:
                rows, row = await fetch_rows(queries, self._number, statement, parameters)
                self._rows = dict(zip(queries, rows, strict=True))
                self.elapsed_s = time.monotonic() - started
                return row
            except NotSent:
                raise
            except DatabaseError as error:
                combined_statement.record_failure(error)
        self.elapsed_s = time.monotonic() - started
        return _known(await afetch_one(statement, parameters) or ()) if statement else None

    def __contains__(self, query: NumberQuery) -> bool:
        """Whether the row is there, so that `get` runs no statement."""
        return query in self._rows

    async def get(self, query: NumberQuery) -> Row | None:
        """`NumberQuery.row`. Raises django.db's errors."""
        return self._rows[query] if query in self._rows else await query.row(self._number)


async def fetch_rows(
    queries: tuple[NumberQuery, ...], number: str, statement: str = "", parameters: Sequence[Any] = ()
) -> tuple[list[Row | None], Row | None]:
    """`NumberQuery.row` of each, and the first row of another `statement`, by one statement. Raises django.db's errors:
    a query that fails fails all of them."""
    values = [value for query in queries for value in query.parameters(number)]
    combined = await afetch_one(_joined(queries, statement), [*values, *parameters]) or ()
    rows, start = [], 0
    for query in queries:
        rows.append(_known(combined[start : start + query.columns]))
        start += query.columns
    if combined and not statement and start != len(combined):
        raise ValueError("a NumberQuery selects another number of columns than it declares")
    return rows, _known(combined[start:])


def _known(row: Row) -> Row | None:
    for value in row:
        if value is not None:
            return row
    return None


@lru_cache(maxsize=16)
def _joined(queries: tuple[NumberQuery, ...], statement: str) -> str:
    statements = [*(query.statement for query in queries), *([statement] if statement else [])]
    joins = " ".join(f"LEFT JOIN ({statement}) t{index} ON true" for index, statement in enumerate(statements))
    columns = ", ".join(f"t{index}.*" for index in range(len(statements)))
    return f"SELECT {columns} FROM (SELECT 1 AS one) always {joins}"  # noqa: S608
