"""Django's PostgreSQL backend, with a client-side time limit on every wait of the serving process.

`statement_timeout` runs in the server, so it does not fire while the server itself is stalled, and TCP keepalives do
not help: the kernel acknowledges them. So each wait on a connection of the pool is limited by DB_MAX_WAIT_S.
A connection that exceeds it is closed: its answer may still come, and would be read as that of the next statement.
Only the serving process has a pool. Commands connect as Django does, without a limit.
"""

import select
from typing import Any, TypeVar, cast

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

from accounts.sql import NoAnswer

RV = TypeVar("RV")


class NoAnswerInTime(psycopg.OperationalError, NoAnswer):
    pass


class LimitedConnection(psycopg.Connection[Any]):
    """All that psycopg sends over a connection and waits for passes `wait`: statements, COMMIT, ROLLBACK, checks."""

    _poll: "select.poll | None" = None
    #: The server's process, which a pooler in session mode hides from libpq; None until it is known.
    server_pid: int | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Raises NoAnswerInTime after DB_MAX_WAIT_S, and has closed the connection then."""
        if timeout is not None or settings.DB_MAX_WAIT_S is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, settings.DB_MAX_WAIT_S)
        except _WaitTimeout:
            self.close()
            raise NoAnswerInTime("the database did not answer in time") from None

    def closed_by_server(self) -> bool:
        """Whether something has arrived on this idle connection: a server that closes it says so, or only closes."""
        if self.closed:
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.pgconn.socket, select.POLLIN)
        return bool(self._poll.poll(0))


class DatabaseWrapper(base.DatabaseWrapper):
    def __init__(self, settings_dict: dict[str, Any], alias: str = DEFAULT_DB_ALIAS) -> None:
        if pool := settings_dict["OPTIONS"].get("pool"):
            pool["connection_class"] = LimitedConnection
        super().__init__(settings_dict, alias)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """From the pool, one that the server has not closed meanwhile. Costs no round trip, as Django's check does."""
        connection: Any = super().get_new_connection(conn_params)
        if (pool := self.pool) is not None:
            while cast(LimitedConnection, connection).closed_by_server():
                connection.close()
                pool.putconn(connection)  # which replaces it
                connection = super().get_new_connection(conn_params)
        return connection

    def _configure_connection(self, connection: Any) -> bool:
        """Once for each new connection, by the thread that makes it.

        By SET and not in the startup packet, whose `options` PgBouncer refuses. Behind a pooler that gives each
        transaction another connection, which is what DB_PREPARE=false says, neither is done: what is set there stays
        with the server's connection, and so with whoever gets that next.
        """
        commit: bool = super()._configure_connection(connection)  # type: ignore[misc]
        if not (settings.DB_STATEMENT_TIMEOUT_MS and settings.DB_PREPARE):
            return commit
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('statement_timeout', %s, false), pg_backend_pid()",
                [f"{settings.DB_STATEMENT_TIMEOUT_MS:d}"],
            )
            connection.server_pid = cursor.fetchone()[1]
        return True
