"""Django's PostgreSQL backend, for pages, commands, imports and background writers: with time limits while serving, and
a client (`dbshell`) that gets all parameters of DATABASE_URL. Searches use core.postgresql.pool."""

from types import SimpleNamespace
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

from core.postgresql.client import DatabaseClient

RV = TypeVar("RV")


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
            self.close()
            raise psycopg.OperationalError("the database did not answer in time") from None


class DatabaseWrapper(base.DatabaseWrapper):
    Database: Any = SimpleNamespace(**{**vars(psycopg), "connect": LimitedConnection.connect})
    client_class = DatabaseClient

    def is_usable(self) -> bool:
        """Django calls this at the first statement of a request, and after an error. Not where the server accepts no
        writes: the name in DATABASE_URL may lead to another one by now, so the request makes a new connection."""
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
