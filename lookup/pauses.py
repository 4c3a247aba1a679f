"""Sources that operators have paused: the rows of SourcePause, which all processes and hosts share.

Searches run no statement of their own for them. Once in REFRESH_S, a search's combined query reads them too, and the
searches of the next REFRESH_S use the result. While they cannot be read, the last known state stays.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.db import DatabaseError, InterfaceError, connection

from core import metrics
from core.database_errors import describe
from lookup.answers import Failed
from lookup.combined_query import RETRY_AFTER_S, NumberQuery, NumberRows
from lookup.models import SourcePause

log = logging.getLogger(__name__)

#: How old the names may be that a search uses. With a read replica, its lag is added (core.replica.MAX_LAG_S).
REFRESH_S = 2.0

SOURCE_PAUSED = metrics.Gauge(
    "callerid_source_paused",
    "1 while an operator has paused the source, on all hosts.",
    ("source",),
    multiprocess_mode="livemax",
)

PAUSED = Failed("paused", "not called: paused by an operator")

# Names of sources have no comma: they come from a list that is separated by commas.
_JOIN = "string_agg" if connection.vendor == "postgresql" else "group_concat"
QUERY = NumberQuery(
    f"SELECT {_JOIN}(connector, ',') AS connectors FROM lookup_sourcepause",  # noqa: S608
    1,
    parameters=lambda number: [],
)


class PausedSources:
    """The names of the paused sources, as this process last read them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names: frozenset[str] = frozenset()
        #: What was read before is older than `_names`; when to read again. By `clock`.
        self._valid_from = self._due_at = float("-inf")
        self._failing = False

    def queries(self) -> list[NumberQuery]:
        """What a search's combined query reads in addition; nothing while the names are recent, or while reading them
        fails: a fault of this table does not disable the combined query."""
        return [QUERY] if self._clock() >= self._due_at and not self._failing else []

    def read(self, rows: NumberRows) -> frozenset[str]:
        """The names, from `rows` if its combined query has read them. Never raises."""
        with self._lock:
            began_at = self._clock()
            if began_at < self._due_at:
                return self._names
            if QUERY in rows:
                began_at = rows.started_at
            else:
                self._due_at = began_at + RETRY_AFTER_S  # one search runs the statement, the others use what is known
        try:
            (joined,) = rows.get(QUERY) or ("",)
        except (DatabaseError, InterfaceError) as error:
            if not self._failing:
                log.warning("the paused sources cannot be read, the last known stay paused (%s)", describe(error))
            self._failing = True
            return self._names
        with self._lock:
            if began_at >= self._valid_from:
                self._names, self._valid_from = frozenset(filter(None, joined.split(","))), began_at
                self._due_at, self._failing = began_at + REFRESH_S, False
            return self._names

    def expire(self) -> None:
        """Have the next search read the names: this process has changed them."""
        with self._lock:
            self._valid_from, self._due_at = self._clock(), float("-inf")


#: This process's. Tests replace it.
process_pauses = PausedSources()


_sampled: set[str] = set()


@metrics.sampler
def sample() -> None:
    try:
        paused = set(SourcePause.objects.values_list("connector", flat=True))
        for name in _sampled | paused:
            SOURCE_PAUSED.set(name in paused, name)
        _sampled.update(paused)
    except (DatabaseError, InterfaceError):
        pass  # health checks report it
    finally:
        with suppress(DatabaseError, InterfaceError):
            connection.close()
