"""Metrics: counters in memory that a background thread adds to their tables every FLUSH_INTERVAL_S.

A new metric is a model with a unique constraint, a CounterTable for it, and a `count` that adds to it (as in
accounts.statistics and lookup.statistics).

The thread flushes a last time when the process ends in an orderly way; a crash loses the counts since the last flush.
Counting runs no SQL statement and never fails the caller: nothing depends on these figures.
"""

import functools
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.util import Finalize
from typing import Any, ParamSpec

from django.db import connection, transaction
from django.db.models import Model

from core import db
from core.database_errors import describe

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 10.0
#: How long the end of a process waits for the last flush: less than the default of STOP_TIMEOUT_S.
EXIT_TIMEOUT_S = 4.0
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
    return connection.ops.adapt_datetimefield_value(begins), *key[1:]


def log_exceptions(count: Callable[P, None]) -> Callable[P, None]:
    """Log whatever a counting function raises, by its type alone, so that the search goes on."""

    @functools.wraps(count)
    def counted(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            count(*args, **kwargs)
        except Exception as error:
            log.warning("statistics: not counted (%s)", describe(error))

    return counted


class Counters:
    """The counts of one process that are not in the database yet.

    `flush_interval_s` None: no thread, and nothing is written until `flush` is called.
    """

    def __init__(self, flush_interval_s: float | None = FLUSH_INTERVAL_S) -> None:
        self._flush_interval_s = flush_interval_s
        self._lock = threading.Lock()
        self._rows: dict[tuple[CounterTable, Key], list[int]] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
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
            if self._thread is None and self._flush_interval_s is not None:
                thread = threading.Thread(target=self._flush_regularly, name="statistics", daemon=True)
                thread.start()
                self._thread = thread  # only now: start() may raise, and the next call tries again
                # Finalize instead of atexit, which granian's workers do not run, because they are multiprocessing's
                # children. In any other process this runs at exit too.
                Finalize(None, self.close, exitpriority=0)

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

    def close(self) -> bool:
        """Flush a last time and end the thread. False when it has not ended after EXIT_TIMEOUT_S."""
        if self._thread is None:
            return True
        self._closing.set()
        self._thread.join(EXIT_TIMEOUT_S)
        return not self._thread.is_alive()

    def _row(self, table: CounterTable, key: Key) -> list[int] | None:
        """The row to add to; None when MAX_ROWS is reached."""
        row = self._rows.get((table, key))
        if row is None and len(self._rows) < MAX_ROWS:
            row = self._rows[table, key] = [0] * len(table.values)
        if row is None and not self._full:
            self._full = True
            log.warning("statistics: %d rows wait to be written, further ones are dropped", MAX_ROWS)
        return row

    def _flush_regularly(self) -> None:
        closing = False
        while not closing:
            closing = self._closing.wait(self._flush_interval_s)
            self.flush()
            with suppress(Exception):  # closing a lost connection may fail too
                connection.close()


def _upsert(table: CounterTable, rows: Sequence[Sequence[Any]]) -> None:
    """Add the counts in one statement: psycopg's executemany logs lines of its own when the database fails."""
    columns = table.key + table.values
    postgresql = connection.vendor == "postgresql"
    merge = f"{'GREATEST' if postgresql else 'MAX'}({{0}}, {{1}})" if table.maximum else "{0} + {1}"
    updates = [f"{column} = {merge.format(f'{table.name}.{column}', f'excluded.{column}')}" for column in table.values]
    source, parameters = (_json_source if postgresql else _values_source)(table, columns, rows)
    sql = (
        f"INSERT INTO {table.name} ({', '.join(columns)}) {source} "
        f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {', '.join(updates)}"
    )
    with transaction.atomic():  # a savepoint where the caller has a transaction: a refusal does not break that one
        db.run(sql, parameters)


def _values_source(table: CounterTable, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
    placeholders = f"({', '.join(['%s'] * len(columns))})"
    return f"VALUES {', '.join([placeholders] * len(rows))}", [value for row in rows for value in row]


def _json_source(table: CounterTable, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
    """All rows in one parameter.

    psycopg handles each parameter in Python: thousands of them occupy the interpreter for 100-200 ms at every flush,
    and a search waits for it after each of its own waits, which multiplies the 99th percentile (docs/performance.md).
    """
    types = {field.column: field.db_type(connection) for field in table.model._meta.fields}
    typed = ", ".join(f"{column} {types[column]}" for column in columns)
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    source = f"SELECT * FROM json_to_recordset(%s::json) AS row({typed})"  # noqa: S608
    return source, [json.dumps(objects, default=str)]


#: The counters of this process. Tests replace them.
process_counters = Counters()


def _start_anew() -> None:
    """After a fork: the thread and the counts are the parent's."""
    global process_counters  # noqa: PLW0603
    process_counters = Counters()


os.register_at_fork(after_in_child=_start_anew)
