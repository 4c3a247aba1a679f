"""Django's PostgreSQL backend, for pages, commands, imports and background writers: with time limits while serving, and
a client (`dbshell`) that gets all parameters of DATABASE_URL. Searches use core.postgresql.pool."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db import OperationalError, transaction
from django.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

from core import commits
from core.postgresql.client import DatabaseClient

RV = TypeVar("RV")
#: Also within WITH, and in a SELECT that locks rows. Of another statement with such a word, it is only wrong that it is
#: refused while commits are suspended.
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|COPY)\b", re.IGNORECASE)


class NoReply(psycopg.OperationalError):
    """No reply came in time. `process`: the id of the server's process, which may still be executing the statement."""

    process: int


class LimitedConnection(psycopg.Connection[Any]):
    """With a limit of each wait while serving: `statement_timeout` does not fire while the server itself stalls, and
    TCP keepalives do not help, because the kernel acknowledges them. `max_wait_s`: in place of DB_MAX_WAIT_S."""

    max_wait_s: float | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Raises OperationalError, with the connection closed: a late reply would be read as the next one."""
        if timeout is not None or not settings.SERVING:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.max_wait_s or settings.DB_MAX_WAIT_S)
        except _WaitTimeout:
            late = NoReply("the database did not answer in time")
            late.process = self.info.backend_pid
            self.close()
            raise late from None


class DatabaseWrapper(base.DatabaseWrapper):
    Database: Any = SimpleNamespace(**{**vars(psycopg), "connect": LimitedConnection.connect})
    client_class = DatabaseClient

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(_execute)
        #: Whether the transaction in progress has something to commit.
        self.has_written = False

    def _commit(self) -> None:
        if self.has_written:
            self.has_written = False
            # Now, where `statement_timeout` ends the wait for the row that a foreign key refers to, and not in COMMIT.
            with self.wrap_database_errors:
                self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            _committed(super()._commit)  # type: ignore[misc]
        else:
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        self.has_written = False
        super()._rollback()  # type: ignore[misc]

    def is_usable(self) -> bool:
        """Django calls this at the first statement of a request, and after an error. Not where the server accepts no
        writes: the name in DATABASE_URL may resolve to another one by now, so the request makes a new connection."""
        if self.connection is None:
            return False
        try:
            with self.connection.cursor() as cursor:
                return bool(cursor.execute("SHOW transaction_read_only").fetchone() == ("off",))
        except psycopg.Error:
            return False

    def _configure_connection(self, connection: Any) -> bool:
        """By SET, because PgBouncer refuses `options` in the startup packet. Not with DB_PREPARE=false, behind a pooler
        in transaction mode: what is set there stays with the server's connection, for whichever client gets it next."""
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]
        if not (settings.DB_STATEMENT_TIMEOUT_MS and settings.DB_PREPARE):
            return commit
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, false)", [f"{settings.DB_STATEMENT_TIMEOUT_MS:d}"]
            )
        return True


def _execute(execute: Callable[..., Any], sql: Any, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
    """Run a statement. While serving, that is for a page or a background thread; one that writes is only begun if
    commits complete."""
    if not (settings.SERVING and isinstance(sql, str) and WRITES.search(sql)):
        return execute(sql, parameters, many, context)
    process_commits = commits.process_commits
    if process_commits.are_suspended:
        from core.postgresql import replication  # uses this module's connection

        process_commits.require()
        replication.observe_commits()
    process_commits.require()
    database = context["connection"]
    with nullcontext() if database.in_atomic_block else transaction.atomic(database.alias):
        database.has_written = True
        return execute(sql, parameters, many, context)


def _committed(function: Callable[[], RV]) -> RV:
    """The result of `function`, which commits what a page has written. Raises CommitsSuspended: one at a time tries."""
    process_commits = commits.process_commits
    with process_commits.attempt():
        process_commits.begin()
        try:
            result = function()
        except OperationalError as error:
            if isinstance(error.__cause__, NoReply):
                process_commits.late(error.__cause__.process)
            raise
        process_commits.committed()
        return result
