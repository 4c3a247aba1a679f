"""Whether the database completes commits, as this process knows it: while it does not, none is begun.

A commit that waits for a synchronous standby keeps its server process, also after its client has given up. So a standby
that hangs would use up every connection of the server, its owner's too. One late commit, or FAILURES searches in a row
that failed because of the database, such as a full disk, suspend searches and what pages write.

They are resumed when the server says that commits complete (core.postgresql.replication), or when a trial succeeds:
after OPEN_S, and then twice as long after each failed one, a single search or page is let through.
"""

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from enum import IntEnum

from django.db import OperationalError

from core import database_errors
from core.circuit_breaker import CircuitBreaker, Event

log = logging.getLogger(__name__)

FAILURES = 3
OPEN_S, MAX_OPEN_S = 1.0, 4.0
#: How long /readyz reports failed searches: a process that gets no search meanwhile has to be tried again.
REPORTED_S = 10.0
LATE_COMMIT = "A commit did not complete in time"
DATABASE_FAILURES = "Searches failed because of the database"


class CommitsSuspended(OperationalError):
    """Commits do not complete at present, so this one was not begun. `wait_s`: Retry-After in seconds."""

    wait_s = 1


class Cause(IntEnum):
    """Why they are suspended, which decides what resumes them. The greatest of those that came up counts."""

    READS = 0  # resumed by any search that succeeds: some services answer free searches only
    FAILED_COMMIT = 1  # by a commit of the one that tries
    LATE_COMMIT = 2  # the same; searches that fail meanwhile do not change the problem that is reported
    SERVER = 3  # it says that commits do not complete: the same, or when it says that they do


class Attempt:
    """A search, or the commit of a page: what becomes of it tells whether commits complete."""

    __slots__ = ("_commits", "_token", "has_begun", "has_committed", "permit")

    def __init__(self, commits: "CommitBreaker", permit: object) -> None:
        self._commits = commits
        self.permit = permit
        #: Whether it has begun a commit, and completed one.
        self.has_begun = self.has_committed = False

    def __enter__(self) -> None:
        self._token = _attempt.set(self)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _attempt.reset(self._token)
        self._commits.end(self, error)


#: The one in progress; None outside of one.
_attempt: ContextVar[Attempt | None] = ContextVar("attempt", default=None)


class CommitBreaker:
    """Searches use it on the event loop, pages in their threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._breaker = CircuitBreaker(self._log, clock, failures=FAILURES, open_s=OPEN_S, max_open_s=MAX_OPEN_S)
        self._clock = clock
        self._problem, self._failed_at = "", float("-inf")
        self._cause = Cause.READS
        #: The server's processes whose commit was late. They run on until it is complete.
        self.late_processes: tuple[int, ...] = ()
        self._late_at = 0.0

    @property
    def are_suspended(self) -> bool:
        """Also while one tries whether they complete again."""
        return self._breaker.is_open

    def problem(self) -> str | None:
        """One sentence about the last searches, if they failed because of the database and it was less than REPORTED_S
        ago; None otherwise. Of late commits the server tells more."""
        is_reported = self.are_suspended and self._clock() - self._failed_at < REPORTED_S
        return self._problem if is_reported else None

    def late_s(self) -> float:
        """How long ago the last commit was late, in seconds."""
        return self._clock() - self._late_at

    def require(self) -> None:
        """Raises CommitsSuspended if no commit may be begun now. While they are suspended, a search may begin one only
        if it is the one that tries."""
        attempt = _attempt.get()
        if self._breaker.refuses if attempt is None else not self._breaker.is_current(attempt.permit):
            raise CommitsSuspended(self._problem)

    def begin(self) -> None:
        """As `require`, right before a commit of the attempt in progress."""
        self.require()
        if attempt := _attempt.get():
            attempt.has_begun = True

    def attempt(self) -> Attempt:
        """To be entered. Raises CommitsSuspended."""
        permit = self._breaker.admit()
        if permit is None:
            raise CommitsSuspended(self._problem)
        return Attempt(self, permit)

    # --- What shows whether they complete ----------------------------------------------------------------------------

    def committed(self) -> None:
        """A commit of the attempt in progress is complete."""
        if attempt := _attempt.get():
            attempt.has_committed = True
            if self._cause and self._breaker.is_current(attempt.permit):
                self._resume()

    def late(self, process: int | None) -> None:
        """A commit was not complete in time. `process`: the id of its server process."""
        if process is not None:
            self.late_processes += (process,)
        self._late_at = self._clock()
        self._problem, self._cause = LATE_COMMIT, max(self._cause, Cause.LATE_COMMIT)
        attempt = _attempt.get()
        if attempt and self._breaker.is_current(attempt.permit):
            self._breaker.failed(attempt.permit, open_now=True)
        else:
            self._breaker.open()

    def observed(self, problem: str | None) -> None:
        """What the server says: one sentence about why commits do not complete, or None."""
        if problem:
            self._problem, self._cause = problem, Cause.SERVER
            self._breaker.open()
        elif self._cause is Cause.SERVER:
            self._resume()

    def end(self, attempt: Attempt, error: BaseException | None) -> None:
        """The attempt has ended, by `error` if there is one."""
        if error is None and (attempt.has_committed or not self._cause):
            self._breaker.succeeded(attempt.permit)
        elif error is None or isinstance(error, CommitsSuspended) or not database_errors.concerns_all_searches(error):
            self._breaker.dismissed(attempt.permit)
        else:
            if self._cause < Cause.LATE_COMMIT:
                self._problem = database_errors.explain(error, DATABASE_FAILURES)
                self._failed_at = self._clock()
            if attempt.has_begun:
                self._cause = max(self._cause, Cause.FAILED_COMMIT)
            self._breaker.failed(attempt.permit)

    def _resume(self) -> None:
        self._cause, self.late_processes = Cause.READS, ()
        self._breaker.close()

    def _log(self, event: Event) -> None:
        if event == "breaker_opened":
            log.error("commits are suspended, searches are refused: %s", self._problem)
        else:
            log.warning("commits complete again")


#: That of this process. Tests replace it.
process_commits = CommitBreaker()
