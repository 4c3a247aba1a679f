"""Rows in memory that a background thread inserts into their table (core.background).

Adding a row runs no SQL statement and never waits for the database.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from django.db import DataError, IntegrityError, transaction
from django.db.models import Model

from core import db
from core.background import BackgroundWriter
from core.database_errors import describe

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 2.0
#: The limit of one process while the database is unavailable: some 30 MB.
MAX_ROWS = 20_000
#: Rows in one transaction: on SQLite searches wait for it.
BATCH_ROWS = 500

Row = tuple[Any, ...]


class RowQueue(BackgroundWriter):
    """The rows of one table that are not in the database yet. Beyond MAX_ROWS the oldest are dropped.

    `to_columns`: converts a row in memory, which may be more compact, to the values of `columns`. `name`: for the log.
    """

    def __init__(
        self,
        *,
        name: str,
        model: type[Model],
        columns: Sequence[str],
        to_columns: Callable[[Row], Sequence[Any]],
        flush_interval_s: float | None = FLUSH_INTERVAL_S,
    ) -> None:
        super().__init__(flush_interval_s)
        self._name = name
        self._model = model
        self._columns = columns
        self._to_columns = to_columns
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque()
        self._failing = self._dropping = False

    @property
    def pending_rows(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> None:
        with self._lock:
            self._rows.append(row)
            if len(self._rows) > MAX_ROWS:
                self._drop_oldest()
        self.start_thread()

    def flush(self) -> None:
        """Insert the rows, on this thread's connection.

        Never raises: what the database cannot take now is kept for the next flush, and a batch whose values it refuses
        is dropped. (A batch that was committed while its reply was lost is inserted twice.)
        """
        with self._lock:
            rows, self._rows = self._rows, deque()
        try:
            while rows:
                batch = list(islice(rows, BATCH_ROWS))
                self._insert(batch)
                for _ in batch:
                    rows.popleft()
                self.after_insert(len(batch))
        except Exception as error:
            if not self._failing:
                log.warning("%s is kept in memory: the database refused it (%s)", self._name, describe(error))
            self._failing = True
            with self._lock:
                rows.extend(self._rows)
                self._rows = rows
                if len(rows) > MAX_ROWS:
                    self._drop_oldest()
        else:
            if self._failing:
                log.warning("%s is written again", self._name)
            self._failing = self._dropping = False

    def after_insert(self, count: int) -> None:
        """Called after each batch of `count` rows; an exception counts as a failed flush."""

    def _insert(self, rows: Sequence[Row]) -> None:
        try:
            with transaction.atomic():
                db.insert(self._model, self._columns, [self._to_columns(row) for row in rows])
        except (DataError, IntegrityError, ValueError, TypeError) as error:
            log.error(
                "%s: %d rows dropped, the database refused their values (%s)", self._name, len(rows), describe(error)
            )

    def _drop_oldest(self) -> None:
        while len(self._rows) > MAX_ROWS:
            self._rows.popleft()
        if not self._dropping:
            self._dropping = True
            log.warning("%s: %d rows wait to be written, the oldest are dropped", self._name, MAX_ROWS)
