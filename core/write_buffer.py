"""Rows in memory that a background thread writes to their tables every FLUSH_INTERVAL_S: statistics, logs of add-ons.

A new figure is a model with a unique constraint, a BufferedTable for it, and a `count` that adds to it (as in
accounts.request_statistics and monitoring.source_statistics).

Adding runs no SQL statement and never waits for the database.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError, IntegrityError
from django.db.models import Model

from core import db, loop
from core.background import BackgroundWriter
from core.database_errors import describe

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
#: The rows of one table that a process keeps while the database is unavailable: at most some 30 MB.
MAX_ROWS = 20_000
#: Rows in one statement: SQLite's searches wait for it, and preparing it occupies the interpreter.
BATCH_ROWS = 250

Key = tuple[Any, ...]
#: Pairs of an index into `BufferedTable.values` and an amount.
Amounts = Iterable[tuple[int, int]]
Row = tuple["BufferedTable", Key, Amounts]


@dataclass(frozen=True, eq=False, slots=True)
class BufferedTable:
    """A table that the buffer writes.

    With `values`, it has counters: `key` has the columns of a unique constraint, and `values` whole-number columns,
    which are added to; with `maximum` they keep the greatest value instead (0 or more). Without, each row is a new one,
    and `key` has all its columns.
    """

    model: type[Model]
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    maximum: bool = False

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    def insert(self, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows or add to them, in one statement. `rows`: key and values. Raises django.db's errors."""
        on_conflict = ""
        if self.values:
            merge = "CASE WHEN {0} > {1} THEN {0} ELSE {1} END" if self.maximum else "{0} + {1}"
            sums = [f"{each} = {merge.format(f'{self.name}.{each}', f'excluded.{each}')}" for each in self.values]
            on_conflict = f"ON CONFLICT ({', '.join(self.key)}) DO UPDATE SET {', '.join(sums)}"
        statement = db.insert_statement(self.model, self.key + self.values, rows, on_conflict)
        loop.run(db.afetch_untraced(*statement))  # not afetch: no span without a request


class WriteBuffer(BackgroundWriter):
    """The rows of one process that are not in the database yet. Beyond MAX_ROWS of a table the oldest are dropped."""

    def __init__(self, flush_interval_s: float | None = FLUSH_INTERVAL_S) -> None:
        super().__init__(flush_interval_s)
        self._lock = threading.Lock()
        self._rows: defaultdict[BufferedTable, dict[Key, list[int]]] = defaultdict(dict)
        #: The tables of which the log says so already.
        self._failing: set[BufferedTable] = set()
        self._full: set[BufferedTable] = set()

    def add(self, *rows: Row) -> None:
        """Add each of `rows`, or its amounts to the row that has its key."""
        with self._lock:
            for table, key, amounts in rows:
                self._add(table, key, amounts)
        self.start_thread()

    def flush(self) -> None:
        """Write the rows, by core.db.afetch_untraced.

        Never raises: what the database cannot take now is kept for the next flush, and a batch whose values it refuses
        is dropped. (A batch that was committed while its reply was lost is written twice.)
        """
        with self._lock:
            pending, self._rows = self._rows, defaultdict(dict)
        # In the same order in every process, so that two that add to the same rows cannot deadlock.
        for table in sorted(pending, key=lambda table: table.name):
            rows = pending[table]
            try:
                self._write(table, rows)
            except Exception as error:
                if table not in self._failing:
                    log.warning(
                        "%s: rows are kept in memory, the database refused them (%s)", table.name, describe(error)
                    )
                self._failing.add(table)
                self._put_back(table, rows)
            else:
                if table in self._failing:
                    log.warning("%s: rows are written again", table.name)
                self._failing.discard(table)
                self._full.discard(table)

    @staticmethod
    def _write(table: BufferedTable, rows: dict[Key, list[int]]) -> None:
        """Write `rows`, and remove from them what needs no other attempt."""
        keys = sorted(rows) if table.values else list(rows)
        for start in range(0, len(keys), BATCH_ROWS):
            batch = keys[start : start + BATCH_ROWS]
            try:
                table.insert([(*key, *rows[key]) for key in batch])
            except (DataError, IntegrityError, ValueError, TypeError) as error:
                why = describe(error)
                log.error("%s: %d rows dropped, the database refused their values (%s)", table.name, len(batch), why)
            for key in batch:
                del rows[key]
            db.yield_to_writers()

    def _put_back(self, table: BufferedTable, rows: dict[Key, list[int]]) -> None:
        with self._lock:
            newer, self._rows[table] = self._rows[table], rows
            for key, values in newer.items():
                self._add(table, key, enumerate(values))

    def _add(self, table: BufferedTable, key: Key, amounts: Amounts) -> None:
        rows = self._rows[table]
        if (row := rows.get(key)) is None:
            if len(rows) >= MAX_ROWS:
                del rows[next(iter(rows))]
                if table not in self._full:
                    self._full.add(table)
                    log.warning("%s: %d rows wait to be written, the oldest are dropped", table.name, MAX_ROWS)
            row = rows[key] = [0] * len(table.values)
        for index, amount in amounts:
            row[index] = max(row[index], amount) if table.maximum else row[index] + amount


#: The buffer of this process. Tests replace it.
process_buffer = WriteBuffer()
