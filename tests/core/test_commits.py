"""When commits are suspended, what tries whether they complete again, and what /readyz says meanwhile."""

import sqlite3
from collections.abc import Callable

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError

from core.commits import DATABASE_FAILURES, OPEN_S, REPORTED_S, CommitBreaker, CommitsSuspended
from core.database_errors import NotSent, OutOfTime, concerns_all_searches
from tests.clock import Clock

pytestmark = pytest.mark.once


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def commits(clock: Clock) -> CommitBreaker:
    return CommitBreaker(clock)


def search(commits: CommitBreaker, error: Exception | None = None) -> None:
    """One search, which raises `error` after its commit has begun."""
    with commits.attempt():
        commits.begin()
        if error:
            raise error
        commits.committed()


def read_only_search(commits: CommitBreaker, error: Exception | None = None) -> None:
    """Such as of a test token, or one whose token cannot be read."""
    with commits.attempt():
        if error:
            raise error


def fail(commits: CommitBreaker, error: Exception, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(type(error)):
            search(commits, error)


def fail_to_read(commits: CommitBreaker) -> None:
    with pytest.raises(NotSent):
        read_only_search(commits, NotSent())


def is_late(commits: CommitBreaker, process: int | None = 4711) -> None:
    with commits.attempt():
        commits.late(process)


def is_refused(operation: Callable[[], None]) -> bool:
    try:
        operation()
    except CommitsSuspended as error:
        return error.wait_s == 1
    return False


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def of_file(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = code
    return error


def test_three_failures_in_a_row_suspend_commits(commits: CommitBreaker) -> None:
    fail(commits, NotSent(), 2)
    search(commits)
    fail(commits, NotSent(), 2)
    assert (commits.are_suspended, commits.problem()) == (False, None)
    fail(commits, NotSent())
    assert (commits.are_suspended, commits.problem()) == (True, DATABASE_FAILURES)
    assert is_refused(lambda: search(commits))
    assert is_refused(commits.require)  # a page's


def test_failures_of_those_that_commit_are_in_a_row(commits: CommitBreaker) -> None:
    for _ in range(3):
        fail(commits, NotSent())
        if not commits.are_suspended:
            read_only_search(commits)
    assert commits.are_suspended


def test_one_at_a_time_tries_again(commits: CommitBreaker, clock: Clock) -> None:
    is_late(commits)
    assert is_refused(lambda: search(commits))
    clock.now += OPEN_S
    with commits.attempt():
        commits.require()
        assert is_refused(lambda: search(commits))  # another search, or the commit of a page
    search(commits)
    assert not commits.are_suspended


def test_failed_trial_doubles_the_time_to_the_next(commits: CommitBreaker, clock: Clock) -> None:
    is_late(commits)
    clock.now += OPEN_S
    is_late(commits)
    clock.now += OPEN_S
    assert is_refused(lambda: search(commits))
    clock.now += OPEN_S
    search(commits)
    assert not commits.are_suspended


def test_trial_that_commits_nothing_is_none_after_a_late_commit(commits: CommitBreaker, clock: Clock) -> None:
    is_late(commits)
    clock.now += OPEN_S
    read_only_search(commits)
    fail(commits, ValueError(), 3)  # such as no credits
    assert commits.are_suspended
    search(commits)
    assert not commits.are_suspended


def test_search_that_commits_nothing_ends_failed_reads_only(commits: CommitBreaker, clock: Clock) -> None:
    """Or commits on a full disk would be resumed by each search of a test token, and suspended again."""
    for _ in range(3):
        assert not commits.are_suspended
        fail_to_read(commits)
    clock.now += OPEN_S
    read_only_search(commits)
    assert not commits.are_suspended
    fail(commits, NotSent(), 3)
    clock.now += OPEN_S
    read_only_search(commits)
    assert commits.are_suspended
    search(commits)
    assert not commits.are_suspended


def test_failed_reads_in_a_row_have_no_success_between(commits: CommitBreaker) -> None:
    for _ in range(3):
        fail_to_read(commits)
        read_only_search(commits)
    assert not commits.are_suspended


def test_failed_trial_is_reported_again(commits: CommitBreaker, clock: Clock) -> None:
    fail(commits, NotSent(), 3)
    clock.now += REPORTED_S
    assert commits.problem() is None
    fail(commits, NotSent())
    assert commits.problem() == DATABASE_FAILURES


def test_first_commit_of_a_trial_resumes_them(commits: CommitBreaker, clock: Clock) -> None:
    """The search may go on for as long as a vendor takes."""
    is_late(commits)
    clock.now += OPEN_S
    with commits.attempt():
        commits.committed()
        search(commits)


def test_server_resumes_what_it_has_suspended(commits: CommitBreaker) -> None:
    commits.observed("They wait.")
    assert is_refused(lambda: search(commits))
    commits.observed(None)
    search(commits)
    is_late(commits)
    commits.observed(None)  # the process that was late may have another id behind a pooler
    assert is_refused(lambda: search(commits))
    assert list(commits.late_processes) == [4711]
    commits.observed("A commit did not complete in time")
    commits.observed(None)
    search(commits)
    assert list(commits.late_processes) == []


def test_search_in_progress_begins_no_commit_any_more(commits: CommitBreaker, clock: Clock) -> None:
    with commits.attempt():
        commits.observed("They wait.")
        assert is_refused(commits.require)
        clock.now += OPEN_S
        assert is_refused(commits.require)  # it is not the one that tries
    assert commits.are_suspended


def test_failures_are_reported_for_a_while_only(commits: CommitBreaker, clock: Clock) -> None:
    """A process that gets no search because it is not ready would never become ready again."""
    fail(commits, caused(OperationalError(), of_file(sqlite3.SQLITE_FULL)), 3)
    clock.now += REPORTED_S - 0.1
    assert commits.problem() == "The disk of the database is full"
    clock.now += 0.1
    assert (commits.problem(), commits.are_suspended) == (None, True)
    search(commits)
    is_late(commits)
    assert commits.problem() is None  # the server's own word is newer


@pytest.mark.parametrize(
    ("error", "all_searches"),
    [
        (NotSent(), True),
        (OutOfTime(), False),
        (caused(DatabaseError(), psycopg.errors.DiskFull()), True),
        (caused(DatabaseError(), psycopg.errors.ReadOnlySqlTransaction()), True),
        (caused(DatabaseError(), psycopg.errors.InsufficientPrivilege()), True),
        (caused(OperationalError(), psycopg.errors.QueryCanceled()), False),  # it waited for a lock
        (caused(OperationalError(), psycopg.errors.DeadlockDetected()), False),
        (caused(OperationalError(), psycopg.errors.LockNotAvailable()), False),
        (DataError(), False),
        (IntegrityError(), False),
        (caused(OperationalError(), of_file(sqlite3.SQLITE_FULL)), True),
        (caused(OperationalError(), of_file(sqlite3.SQLITE_IOERR | (3 << 8))), True),
        (caused(OperationalError(), of_file(sqlite3.SQLITE_ERROR)), False),
        (ValueError(), False),
    ],
)
def test_only_errors_that_others_would_meet_count(commits: CommitBreaker, error: Exception, all_searches: bool) -> None:
    assert concerns_all_searches(error) == all_searches
    fail(commits, error, 3)
    assert commits.are_suspended == all_searches
