"""Metrics: counters in memory that a background thread adds to their tables every FLUSH_INTERVAL_S.

A new metric is a model with a unique constraint, a CounterTable for it, and a `count` that adds to it (as in
accounts.statistics and lookup.statistics).

Counting runs no SQL statement and never fails the caller: nothing depends on these figures.
"""

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ParamSpec

from django.db import connection, transaction
from django.db.models import Model

from core import db
from core.background import BackgroundWriter
from core.database_errors import describe

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 10.0
#: The limit of one process while the database is unavailable: some 30 MB.
MAX_ROWS = 50_000
#: Rows in one transaction: on SQLite searches wait for it.
BATCH_ROWS = 500
#: Rows deleted in one transaction.
PRUNE_ROWS = 5_000
_HOUR_S = 3600

P = ParamSpec("P")
Key = tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class CounterTable:
    """A table of counters.

    `key`: the columns of a unique constraint. `values`: whole-number columns, which are added to; with `maximum` they
    keep the greatest value instead (0 or more). `to_columns`: converts a key in memory, which may be more compact, to
    the values of the key columns.
    """

    model: type[Model]
    key: tuple[str, ...]
    values: tuple[str, ...]
    to_columns: Callable[[Key], Sequence[Any]]
    maximum: bool = False

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    def merge(self, value: int, amount: int) -> int:
        return max(value, amount) if self.maximum else value + amount


def hour_number(timestamp_s: float) -> int:
    """The hour of a UNIX time as counter keys hold it: hours since 1970."""
    return int(timestamp_s) // _HOUR_S


def hour_to_columns(key: Key) -> Key:
    """`CounterTable.to_columns` for keys that begin with an hour number."""
    begins = datetime.fromtimestamp(key[0] * _HOUR_S, UTC)
    return begins, *key[1:]


def log_exceptions(count: Callable[P, None]) -> Callable[P, None]:
    """Log whatever a counting function raises, by its type alone, so that the search goes on."""

    @functools.wraps(count)
    def counted(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            count(*args, **kwargs)
        except Exception as error:
            log.warning("statistics: not counted (%s)", describe(error))

    return counted


class Counters(BackgroundWriter):
    """The counts of one process that are not in the database yet."""

    def __init__(self, flush_interval_s: float | None = FLUSH_INTERVAL_S) -> None:
        super().__init__(flush_interval_s)
        self._lock = threading.Lock()
        self._rows: dict[tuple[CounterTable, Key], list[int]] = {}
        self._failing = self._full = False

    @property
    def pending_rows(self) -> int:
        return len(self._rows)

    def add(self, table: CounterTable, key: Key, amounts: Iterable[tuple[int, int]]) -> None:
        """Add to one row. `amounts`: pairs of an index into `table.values` and an amount."""
        with self._lock:
            if row := self._row(table, key):
                for index, amount in amounts:
                    row[index] = table.merge(row[index], amount)
        self.start_thread()

    def flush(self) -> None:
        """Add the counts to their tables, on this thread's connection.

        Never raises: what the database refuses is kept for the next flush. (A batch that was committed while its
        reply was lost counts twice.)
        """
        with self._lock:
            rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            # In the same order in every process, so that two that add to the same rows cannot deadlock.
            for table in sorted({table for table, _ in rows}, key=lambda table: table.name):
                keys = sorted(key for of, key in rows if of is table)
                for start in range(0, len(keys), BATCH_ROWS):
                    batch = keys[start : start + BATCH_ROWS]
                    _upsert(table, [(*table.to_columns(key), *rows[table, key]) for key in batch])
                    for key in batch:
                        del rows[table, key]
        except Exception as error:
            if not self._failing:
                log.warning("statistics are kept in memory: the database refused them (%s)", describe(error))
            self._failing = True
        else:
            if self._failing:
                log.warning("statistics are written again")
            self._failing = self._full = False
        finally:
            with self._lock:
                for (table, key), values in rows.items():
                    if row := self._row(table, key):
                        row[:] = map(table.merge, row, values)

    def _row(self, table: CounterTable, key: Key) -> list[int] | None:
        """The row to add to; None when MAX_ROWS is reached."""
        row = self._rows.get((table, key))
        if row is None and len(self._rows) < MAX_ROWS:
            row = self._rows[table, key] = [0] * len(table.values)
        if row is None and not self._full:
            self._full = True
            log.warning("statistics: %d rows wait to be written, further ones are dropped", MAX_ROWS)
        return row


def _upsert(table: CounterTable, rows: Sequence[Sequence[Any]]) -> None:
    """Add the counts in one statement: psycopg's executemany logs lines of its own when the database fails."""
    columns = table.key + table.values
    postgresql = connection.vendor == "postgresql"
    merge = f"{'GREATEST' if postgresql else 'MAX'}({{0}}, {{1}})" if table.maximum else "{0} + {1}"
    updates = [f"{column} = {merge.format(f'{table.name}.{column}', f'excluded.{column}')}" for column in table.values]
    on_conflict = f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {', '.join(updates)}"
    with transaction.atomic():  # a savepoint where the caller has a transaction: a refusal does not break that one
        db.insert(table.model, columns, rows, on_conflict)


#: The counters of this process. Tests replace them.
process_counters = Counters()
