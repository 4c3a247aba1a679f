"""Django's PostgreSQL backend, with a client-side time limit on every wait of the serving process.

`statement_timeout` runs in the server, so it does not fire while the server itself is stalled, and TCP keepalives do
not help: the kernel acknowledges them. So DB_MAX_WAIT_S limits each wait on a pooled connection. A connection that
exceeds it is closed, because a late reply would be read as that of the next statement. Only the serving process has a
pool. Commands connect as Django does, without a limit.
"""

import select
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql import base
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

from core.db import QueryTimeout
from core.postgresql import prepared
from core.postgresql.client import DatabaseClient
from core.replica import ALIAS as REPLICA_ALIAS

RV = TypeVar("RV")


class ClientQueryTimeout(psycopg.OperationalError, QueryTimeout):
    pass


class LimitedConnection(psycopg.Connection[Any]):
    """psycopg passes all that it sends and waits for through `wait`: statements, COMMIT, ROLLBACK, checks."""

    #: The process id of the server's backend, which a pooler in session mode hides from libpq; None until known.
    server_pid: int | None = None

    @property
    def max_wait_s(self) -> float | None:
        return settings.DB_MAX_WAIT_S

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Raises ClientQueryTimeout after `max_wait_s`, with the connection closed."""
        if timeout is not None or self.max_wait_s is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.max_wait_s)
        except _WaitTimeout:
            self.close()
            raise ClientQueryTimeout("the database did not answer in time") from None

    def closed_by_server(self) -> bool:
        """Whether this idle connection is readable: a server that closes it sends an error or an end of file."""
        if self.closed:
            return True
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        return bool(poll.poll(0))


class ReplicaConnection(LimitedConnection):
    """A search that waits in vain still has to read the primary."""

    @property
    def max_wait_s(self) -> float:
        return settings.DB_REPLICA_MAX_WAIT_S


class DatabaseWrapper(base.DatabaseWrapper):
    client_class = DatabaseClient

    def __init__(self, settings_dict: dict[str, Any], alias: str = DEFAULT_DB_ALIAS) -> None:
        if pool := settings_dict["OPTIONS"].get("pool"):
            pool["connection_class"] = ReplicaConnection if alias == REPLICA_ALIAS else LimitedConnection
        super().__init__(settings_dict, alias)

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection from the pool that the server has not closed. Unlike Django's check this costs no round trip."""
        connection: Any = super().get_new_connection(conn_params)
        if (pool := self.pool) is not None:
            while cast(LimitedConnection, connection).closed_by_server():
                connection.close()
                pool.putconn(connection)  # which replaces it
                connection = super().get_new_connection(conn_params)
        return connection

    def _configure_connection(self, connection: Any) -> bool:
        """Once for each new connection, in the thread that makes it.

        By SET, because PgBouncer refuses `options` in the startup packet. Not with DB_PREPARE=false, behind a pooler in
        transaction mode: what is set there stays with the server's connection, for whichever client gets it next.
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

    def fetch_one(self, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        """As core.db.fetch_one, by a prepared statement."""
        self.ensure_connection()
        with self.wrap_database_errors:
            return prepared.fetch_one(self.connection, statement, parameters)
