"""When commits are suspended, what tries whether they complete again, and what /readyz says meanwhile."""

import sqlite3
from collections.abc import Callable

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, OperationalError

from core.commits import FAILED, OPEN_S, REPORTED_S, Commits, NotBegun
from core.database_errors import concerns_all_searches
from core.db import ConnectionLost, NotSent

pytestmark = pytest.mark.once


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def commits(clock: Clock) -> Commits:
    return Commits(clock)


def search(commits: Commits, error: Exception | None = None) -> None:
    """One search, which raises `error` after its commit has begun."""
    with commits.search():
        commits.require()
        if error:
            raise error


def fail(commits: Commits, error: Exception, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(type(error)):
            search(commits, error)


def is_refused(operation: Callable[[], None]) -> bool:
    try:
        operation()
    except NotBegun as error:
        return error.wait_s == 1
    return False


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def of_file(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = code
    return error


def test_three_failures_in_a_row_suspend_commits(commits: Commits) -> None:
    fail(commits, NotSent(), 2)
    search(commits)
    fail(commits, NotSent(), 2)
    assert (commits.are_suspended, commits.problem()) == (False, None)
    fail(commits, NotSent())
    assert (commits.are_suspended, commits.problem()) == (True, FAILED)
    assert is_refused(lambda: search(commits))
    assert is_refused(commits.require)  # a page's


def test_one_search_at_a_time_tries_again(commits: Commits, clock: Clock) -> None:
    commits.suspend("They wait.")
    clock.now += OPEN_S
    commits.require()  # a page's, which asks the server first
    with commits.search():
        commits.require()
        assert is_refused(lambda: search(commits))
    search(commits)
    assert not commits.are_suspended


def test_failed_trial_suspends_them_again(commits: Commits, clock: Clock) -> None:
    commits.suspend("They wait.")
    clock.now += OPEN_S
    fail(commits, ConnectionLost())
    assert is_refused(lambda: search(commits))
    clock.now += OPEN_S
    search(commits)
    assert not commits.are_suspended


def test_commit_of_a_page_resumes_them(commits: Commits, clock: Clock) -> None:
    commits.suspend("They wait.")
    clock.now += OPEN_S
    commits.require()
    commits.resume()
    search(commits)
    assert not commits.are_suspended


def test_trial_without_a_result_leaves_its_place_to_the_next(commits: Commits, clock: Clock) -> None:
    commits.suspend("They wait.")
    clock.now += OPEN_S
    fail(commits, ValueError(), 3)  # such as no credits
    assert commits.are_suspended
    search(commits)
    assert not commits.are_suspended


def test_search_in_progress_begins_no_commit_any_more(commits: Commits, clock: Clock) -> None:
    with commits.search():
        commits.suspend("They wait.")
        assert is_refused(commits.require)
        clock.now += OPEN_S
        assert is_refused(commits.require)  # it is not the one that tries
    assert commits.are_suspended


def test_failure_is_reported_for_a_while_only(commits: Commits, clock: Clock) -> None:
    """A process that gets no search because it is not ready would never become ready again."""
    commits.suspend("They wait.")
    clock.now += REPORTED_S - 0.1
    assert commits.problem() == "They wait."
    clock.now += 0.1
    assert (commits.problem(), commits.are_suspended) == (None, True)
    fail(commits, caused(OperationalError(), of_file(sqlite3.SQLITE_FULL)))
    assert commits.problem() == "The disk of the database is full"


@pytest.mark.parametrize(
    ("error", "all_searches"),
    [
        (NotSent(), True),
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
def test_only_errors_that_others_would_meet_count(commits: Commits, error: Exception, all_searches: bool) -> None:
    assert concerns_all_searches(error) == all_searches
    fail(commits, error, 3)
    assert commits.are_suspended == all_searches
