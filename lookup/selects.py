"""What tables say about a number: each by a statement of its own, or several in one.

A round trip costs a search more than what it fetches, so the operator's rule and the built-in sources share one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from accounts.sql import one_row

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """At most one row. `columns`: how many it has, of which one is not NULL. `parameters`: the statement's, for a
    number."""

    statement: str
    columns: int
    parameters: Callable[[str], Sequence[Any]]

    def row(self, number: str) -> Row | None:
        """None also for a row of NULLs, which is what a sum over nothing gives."""
        return _known(one_row(self.statement, self.parameters(number)) or ())


def rows(selects: Sequence[Select], number: str) -> list[Row | None]:
    """`row` of each, by one statement. One that fails fails them all."""
    together = (
        one_row(
            _joined(tuple(select.statement for select in selects)),
            [parameter for select in selects for parameter in select.parameters(number)],
        )
        or ()
    )
    found, begins = [], 0
    for select in selects:
        found.append(_known(together[begins : begins + select.columns]))
        begins += select.columns
    if together and begins != len(together):
        raise ValueError("a Select has another number of columns than it says")
    return found


def _known(row: Row) -> Row | None:
    return row if any(value is not None for value in row) else None


@lru_cache(maxsize=16)
def _joined(statements: tuple[str, ...]) -> str:
    joins = " ".join(f"LEFT JOIN ({statement}) t{index} ON true" for index, statement in enumerate(statements))
    columns = ", ".join(f"t{index}.*" for index in range(len(statements)))
    return f"SELECT {columns} FROM (SELECT 1 AS one) always {joins}"  # noqa: S608
