"""Figures that are kept in memory and written to tables: statistics, on which nothing depends.

A thread of this module's own adds what was counted to the tables every FLUSH_S and at the process's orderly end, so a
crash loses at most so much. Who counts runs no statement for it and never fails of it.
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

from accounts import sql

log = logging.getLogger(__name__)

FLUSH_S = 10.0
#: The end of a process waits so long for the last flush: less than serve.py's KILL_AFTER_S.
EXIT_S = 4.0
#: What one process keeps while the database does not take it: some 30 MB.
MAX_ROWS = 50_000
#: In one transaction: on SQLite searches wait for it.
CHUNK_ROWS = 500
_HOUR_S = 3600

P = ParamSpec("P")


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """`key`: the columns of a unique constraint. `sums`: whole numbers, added to; with `greatest`, from 0 on and
    replaced by greater ones. `written`: what the key's columns get of a key, which may be written in fewer
    bytes while it is kept."""

    model: type[Model]
    key: tuple[str, ...]
    sums: tuple[str, ...]
    written: Callable[[tuple[Any, ...]], Sequence[Any]]
    greatest: bool = False

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    def merged(self, kept: int, amount: int) -> int:
        return max(kept, amount) if self.greatest else kept + amount


def hour(moment_s: float) -> int:
    """The hour of a UNIX time, as keys are kept with it: hours since 1970."""
    return int(moment_s) // _HOUR_S


def from_hour(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """`Table.written` of a key that begins with such an hour."""
    begins = datetime.fromtimestamp(key[0] * _HOUR_S, UTC)
    return connection.ops.adapt_datetimefield_value(begins), *key[1:]


def never_raises(count: Callable[P, None]) -> Callable[P, None]:
    """Whatever goes wrong with a statistic is logged, and the search goes on."""

    @functools.wraps(count)
    def counted(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            count(*args, **kwargs)
        except Exception as error:
            log.warning("statistics: not counted (%s)", type(error).__name__)

    return counted


class Recorder:
    """One process's sums. `every_s` None: nothing is written until `flush` is called."""

    def __init__(self, every_s: float | None = FLUSH_S) -> None:
        self._every_s = every_s
        self.reset()

    def reset(self) -> None:
        """Forget everything, the thread too: after a fork it is the parent's, and so is what was counted."""
        self._lock = threading.Lock()
        self._rows: dict[tuple[Table, tuple[Any, ...]], list[int]] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._failing = self._full = False

    def add(self, table: Table, key: tuple[Any, ...], amounts: Iterable[tuple[int, int]]) -> None:
        """Add to the sums of one row. `amounts`: which of the table's sums, and how much."""
        with self._lock:
            if row := self._row(table, key):
                for index, amount in amounts:
                    row[index] = table.merged(row[index], amount)
            if self._thread is None and self._every_s is not None:
                thread = threading.Thread(target=self._flush_regularly, name="statistics", daemon=True)
                thread.start()
                self._thread = thread
                # Not atexit, which granian's workers end without: they are multiprocessing's children. In any
                # other process this runs at exit too.
                Finalize(None, self.close, exitpriority=0)

    def flush(self) -> None:
        """Add what was counted to the tables, on this thread's connection. Never raises: what the database does not
        take is kept for the next time. (When only its answer was lost it counts twice.)"""
        with self._lock:
            rows, self._rows = self._rows, {}
        if not rows:
            return
        try:
            # In the same order in every process: two that add to the same rows never wait for each other in a circle.
            for table in sorted({table for table, _ in rows}, key=lambda table: table.name):
                keys = sorted(key for of, key in rows if of is table)
                for start in range(0, len(keys), CHUNK_ROWS):
                    chunk = keys[start : start + CHUNK_ROWS]
                    _add_to_table(table, [(key, rows[table, key]) for key in chunk])
                    for key in chunk:
                        del rows[table, key]
        except Exception as error:
            if not self._failing:
                log.warning("statistics are kept in memory: the database does not take them (%s)", type(error).__name__)
            self._failing = True
        else:
            if self._failing:
                log.warning("statistics are written again")
            self._failing = self._full = False
        finally:
            self._keep(rows)

    def close(self) -> None:
        """The thread flushes a last time and ends."""
        if self._thread is not None:
            self._ending.set()
            self._thread.join(EXIT_S)

    def _row(self, table: Table, key: tuple[Any, ...]) -> list[int] | None:
        """To add to; None when there is no room for one more."""
        row = self._rows.get((table, key))
        if row is None and len(self._rows) < MAX_ROWS:
            row = self._rows[table, key] = [0] * len(table.sums)
        if row is None and not self._full:
            self._full = True
            log.warning("statistics: %d rows wait to be written, and no more are kept", MAX_ROWS)
        return row

    def _keep(self, rows: dict[tuple[Table, tuple[Any, ...]], list[int]]) -> None:
        with self._lock:
            for (table, key), sums in rows.items():
                if row := self._row(table, key):
                    row[:] = map(table.merged, row, sums)

    def _flush_regularly(self) -> None:
        ended = False
        while not ended:
            ended = self._ending.wait(self._every_s)
            self.flush()
            with suppress(Exception):  # one that was lost may not close either
                connection.close()


def _add_to_table(table: Table, counted: Sequence[tuple[tuple[Any, ...], Sequence[int]]]) -> None:
    """In one statement: psycopg's executemany logs lines of its own when the database fails."""
    columns = table.key + table.sums
    greatest = "GREATEST" if connection.vendor == "postgresql" else "MAX"
    merged = f"{greatest}({{0}}, {{1}})" if table.greatest else "{0} + {1}"
    sums = ", ".join(
        f"{column} = {merged.format(f'{table.name}.{column}', f'excluded.{column}')}" for column in table.sums
    )
    rows = [(*table.written(key), *counts) for key, counts in counted]
    source, parameters = (_as_json if connection.vendor == "postgresql" else _as_values)(table, columns, rows)
    # A refusal leaves a transaction that this may stand in as it was.
    with transaction.atomic():
        sql.run(
            f"INSERT INTO {table.name} ({', '.join(columns)}) {source} "
            f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {sums}",
            parameters,
        )


def _as_values(table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
    placeholders = f"({', '.join(['%s'] * len(columns))})"
    return f"VALUES {', '.join([placeholders] * len(rows))}", [value for row in rows for value in row]


def _as_json(table: Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
    """In one parameter: psycopg takes 0.1 ms for a row of them in Python, and a search meanwhile waits for the
    interpreter each time that it has waited for anything else."""
    kinds = {field.column: field.db_type(connection) for field in table.model._meta.fields}
    typed = ", ".join(f"{column} {kinds[column]}" for column in columns)
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    source = f"SELECT * FROM json_to_recordset(%s::json) AS row({typed})"  # noqa: S608
    return source, [json.dumps(objects, default=str)]


recorder = Recorder()
os.register_at_fork(after_in_child=recorder.reset)
