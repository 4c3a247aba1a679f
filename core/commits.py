"""Whether commits complete, as this process knows it: while they do not, none is begun.

A commit that waits for a synchronous standby keeps its server process, also after its client has given up. So a standby
that hangs would use up every connection of the server, its owner's too. One late commit, or FAILURES searches in a row
that failed because of the database, such as a full disk, suspend searches and what pages write. After OPEN_S one search
is let through, unless the server itself says that commits do not complete (core.postgresql.replication). Once one
succeeds, all are let through again.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import OperationalError

from core import database_errors
from core.circuit_breaker import CircuitBreaker, Event

log = logging.getLogger(__name__)

FAILURES = 3
OPEN_S = 1.0
#: How long /readyz reports the last failure: a process that gets no search meanwhile has to be tried again.
REPORTED_S = 10.0
LATE = "A commit did not complete in time"
FAILED = "Searches failed because of the database"

#: That of the search in progress; None outside of one.
_permit: ContextVar[object | None] = ContextVar("permit", default=None)


class NotBegun(OperationalError):
    """Commits do not complete at present, so this one was not begun. `wait_s`: Retry-After in seconds."""

    wait_s = 1


class Commits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._breaker = CircuitBreaker(self._log, clock, failures=FAILURES, open_s=OPEN_S)
        self._clock = clock
        self._problem, self._failed_at = "", float("-inf")

    @property
    def are_suspended(self) -> bool:
        """Also while one tries whether they complete again."""
        return self._breaker.is_open

    def problem(self) -> str | None:
        """One sentence about why they are suspended; None if they are not, or nothing has failed for REPORTED_S."""
        is_reported = self.are_suspended and self._clock() - self._failed_at < REPORTED_S
        return self._problem if is_reported else None

    def suspend(self, problem: str) -> None:
        """`problem`: one sentence about why commits do not complete."""
        self._remember(problem)
        self._breaker.open()

    def resume(self) -> None:
        """One that was begun while they were suspended has completed."""
        self._breaker.close()

    def require(self) -> None:
        """Raises NotBegun if no commit may be begun now. While they are suspended, a search may begin one only if it is
        the one that tries."""
        permit = _permit.get()
        if self._breaker.refuses if permit is None else not self._breaker.is_current(permit):
            raise NotBegun(self._problem)

    @contextmanager
    def search(self) -> Iterator[None]:
        """One search, whose result tells whether commits complete. Raises NotBegun."""
        permit = self._breaker.admit()
        if permit is None:
            raise NotBegun(self._problem)
        token = _permit.set(permit)
        try:
            yield
        except NotBegun:
            raise
        except Exception as error:
            if database_errors.concerns_all_searches(error):
                self._remember(database_errors.explain(error, FAILED))
                self._breaker.failed(permit)
            raise
        else:
            self._breaker.succeeded(permit)
        finally:
            self._breaker.dismissed(permit)
            _permit.reset(token)

    def _remember(self, problem: str) -> None:
        self._problem, self._failed_at = problem, self._clock()

    def _log(self, event: Event) -> None:
        if event == "breaker_opened":
            log.error("commits are suspended, searches are refused: %s", self._problem)
        else:
            log.warning("commits complete again")


#: Those of this process. Tests replace it.
process_commits = Commits()
