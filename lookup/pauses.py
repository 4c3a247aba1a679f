"""Sources that operators have paused: the rows of SourcePause, which all processes and hosts share."""

import logging
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError

from core import metrics
from core.database_errors import describe
from core.db import afetch
from lookup.answers import Failed
from lookup.models import SourcePause

log = logging.getLogger(__name__)

#: How old the names may be that a search uses.
REFRESH_S = 2.0

SOURCE_PAUSED = metrics.Gauge(
    "callerid_source_paused",
    "1 while an operator has paused the source, on all hosts.",
    ("source",),
)

PAUSED = Failed("paused", "not called: paused by an operator")


class PausedSources:
    """The names of the paused sources, as this process last read them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: None before the first search: concurrent first searches all read them.
        self._names: frozenset[str] | None = None
        self._read_again_at = 0.0
        self._failing = False

    async def names(self) -> frozenset[str]:
        """The names, read again by one search every REFRESH_S. The last known ones if they cannot be read."""
        if self._names is not None and self._clock() < self._read_again_at:
            return self._names
        self._read_again_at = self._clock() + REFRESH_S  # concurrent searches use the last known names
        try:
            self._names = frozenset(name for (name,) in await afetch("SELECT connector FROM lookup_sourcepause"))
            self._failing = False
        except (DatabaseError, InterfaceError) as error:
            self._names = self._names or frozenset()
            if not self._failing:
                log.warning("the paused sources cannot be read, the last known stay paused (%s)", describe(error))
            self._failing = True
        return self._names


#: This process's. Tests replace it.
process_pauses = PausedSources()


_sampled: set[str] = set()


@metrics.sampler
def sample() -> None:
    paused = set(SourcePause.objects.values_list("connector", flat=True))
    for name in _sampled | paused:
        SOURCE_PAUSED.set(name in paused, name)
    _sampled.update(paused)
