"""PostgreSQL on the event loop: a pool of connections of asyncpg, with a time limit on every wait.

`statement_timeout` runs in the server, so it does not fire while the server itself is stalled. So the client limits
each statement too, and closes a connection whose reply is late, without a cancel request: with a synchronous standby
that does not answer, PostgreSQL would commit locally what is cancelled.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import asyncpg
from django.conf import settings
from django.db import DatabaseError, DataError, IntegrityError, connection
from psycopg import conninfo

from core import db, loop
from core.database_errors import (
    ConnectionLost,
    NotSent,
    OutOfTime,
    TimedOut,
    describe,
    is_connection_stale,
    is_outcome_unknown,
)

log = logging.getLogger(__name__)

#: How long a connection to one of several hosts may take: a host that is switched off must not use up the time of a
#: search while another host answers.
HOST_TIMEOUT_S = 0.3
_ERRORS = {"22": DataError, "23": IntegrityError}
#: What asyncpg raises when it cannot connect, or loses a connection. Of these, a host that is a standby although
#: `target_session_attrs` asks for another kind is an InternalClientError.
_FAILURES = (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class Pool:
    """At most `size` connections, made when they are needed; the server may be down when it is created.

    Not asyncpg's, which starts a task at each release: a third of the CPU time of a statement. Each statement is a
    transaction of its own, so there is nothing to reset.
    """

    def __init__(self, size: int, max_wait_s: float | None) -> None:
        self._size = size
        self._max_wait_s = max_wait_s
        self._hosts = targets(connection.get_connection_params())
        #: The one that was used last is used next.
        self._idle: list[asyncpg.Connection[Any]] = []
        self._open = 0
        #: Those made since the last `close`, with the ids of their server processes.
        self._reusable: dict[asyncpg.Connection[Any], int] = {}
        #: Get a connection, or None: one may be made.
        self._waiting: deque[asyncio.Future[asyncpg.Connection[Any] | None]] = deque()

    async def open(self) -> None:
        """Make all connections at once, as far as the server accepts them now: otherwise the first searches would
        wait."""
        results = await asyncio.gather(*(self.fetch("SELECT 1", []) for _ in range(self._size)), return_exceptions=True)
        if errors := [error for error in results if isinstance(error, BaseException)]:
            log.warning("the database cannot be reached (%s)", describe(errors[0]))

    def close(self) -> None:
        """Close all connections, those in use after their statement. Statements that come later make new ones, at most
        `size` at once: the name in DATABASE_URL may resolve to another server by now."""
        for idle in self._idle:
            idle.terminate()
        self._reusable.clear()

    def sizes(self) -> tuple[int, int, int]:
        return self._open, len(self._idle), self._size

    async def fetch(
        self, statement: str, parameters: Sequence[Any], before: Callable[[], None] | None = None
    ) -> Sequence[Any]:
        """As core.db.afetch. `before`, of a commit: called once it has a connection; what it raises prevents it."""
        acquired = await self._acquire()
        limit = None
        try:
            wait_s = self._max_wait_s if before is not None else db.time_left_s(self._max_wait_s)
            # Not asyncio.timeout, which would cancel the statement, and so send a cancel request.
            limit = loop.Limit(wait_s, acquired.terminate) if wait_s else None
            if before is not None:
                before()
            return await acquired.fetch(_numbered(statement), *parameters)
        except asyncpg.PostgresError as error:
            if is_outcome_unknown(error.sqlstate):
                raise self._lost(acquired, limit, before is not None) from error
            if is_connection_stale(error.sqlstate):
                acquired.terminate()
                self.close()
            raise _ERRORS.get(error.sqlstate[:2], DatabaseError)(str(error)) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            raise self._lost(acquired, limit, before is not None) from error
        except DatabaseError:  # raised before it was sent
            raise
        except BaseException:  # cancelled, or a parameter of another type
            acquired.terminate()
            raise
        finally:
            if limit:
                limit.cancel()
            self._release(acquired)

    def _lost(self, acquired: "asyncpg.Connection[Any]", limit: loop.Limit | None, is_commit: bool) -> ConnectionLost:
        """Raises OutOfTime if a read was ended by the search's deadline."""
        acquired.terminate()
        if limit and limit.reached:
            if not is_commit:
                db.time_left_s(None)
            late = TimedOut("the database did not answer in time")
            late.process = self._reusable.get(acquired)
            return late
        return ConnectionLost("the database closed the connection")

    async def _acquire(self) -> "asyncpg.Connection[Any]":
        """Raises NotSent."""
        is_full = False  # the server accepts no further connection, and one of ours will be free soon
        while True:
            while self._idle:
                if not (idle := self._idle.pop()).is_closed():
                    return idle
                self._reusable.pop(idle, None)
                self._open -= 1
            if self._open and (is_full or self._open >= self._size):
                if (handed := await self._wait(db.time_left_s(self._max_wait_s))) is not None:
                    return handed
                is_full = False
                continue
            self._open += 1
            try:
                async with asyncio.timeout(db.time_left_s(self._max_wait_s)):
                    connected = await self._connect()
            except BaseException as error:
                self._open -= 1
                if isinstance(error, asyncpg.TooManyConnectionsError) and self._open:
                    is_full = True
                    continue
                self._hand_over(None)
                if isinstance(error, TimeoutError):
                    db.time_left_s(None)  # raises OutOfTime if it was the search's deadline that ended it
                if isinstance(error, _FAILURES):
                    raise NotSent("no connection to the database in time") from error
                raise
            self._reusable[connected] = connected.get_server_pid()
            return connected

    async def _wait(self, wait_s: float | None) -> "asyncpg.Connection[Any] | None":
        """Raises OutOfTime."""
        turn: asyncio.Future[asyncpg.Connection[Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        limit = wait_s and loop.Limit(wait_s, partial(_give_up, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and not turn.exception():  # at the same moment
                self._release(turn.result())
            raise
        finally:
            if limit:
                limit.cancel()

    def _release(self, released: "asyncpg.Connection[Any] | None") -> None:
        if released is not None and (released.is_closed() or released not in self._reusable):
            released.terminate()
            self._reusable.pop(released, None)
            self._open -= 1
            released = None
        if not self._hand_over(released) and released is not None:
            self._idle.append(released)

    def _hand_over(self, released: "asyncpg.Connection[Any] | None") -> bool:
        """Whether somebody waits for it."""
        while self._waiting:
            if not (turn := self._waiting.popleft()).done():
                turn.set_result(released)
                return True
        return False

    async def _connect(self) -> "asyncpg.Connection[Any]":
        """A connection to the first host that accepts it, beginning with the one that did last. Raises the last host's
        error."""
        failure: BaseException | None = None
        for host in list(self._hosts):
            try:
                connected: asyncpg.Connection[Any] = await asyncpg.connect(
                    **host, statement_cache_size=100 if settings.DB_PREPARE else 0
                )
                await _limit_statements(connected, host["timeout"])
            except asyncpg.TargetServerAttributeNotMatched as error:
                failure = asyncpg.ReadOnlySQLTransactionError(str(error))  # the SQLSTATE of what it stands for
                continue
            except _FAILURES as error:
                failure = error
                continue
            if host is not self._hosts[0]:
                self._hosts = [host, *(other for other in self._hosts if other is not host)]
            return connected
        raise failure or OSError("DATABASE_URL names no host")


def _give_up(turn: "asyncio.Future[Any]") -> None:
    if not turn.done():
        turn.set_exception(OutOfTime("all pooled connections were in use"))


async def _limit_statements(connection: Any, timeout_s: float) -> None:
    """By SET, because PgBouncer refuses it in the startup packet. Not with DB_PREPARE=false, behind a pooler in
    transaction mode: what is set there stays with the server's connection, for whichever client gets it next."""
    if not (settings.DB_STATEMENT_TIMEOUT_MS and settings.DB_PREPARE):
        return
    try:
        async with asyncio.timeout(timeout_s):
            await connection.execute(f"SET statement_timeout = {settings.DB_STATEMENT_TIMEOUT_MS:d}")
    except BaseException:
        connection.terminate()
        raise


def targets(parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The options of asyncpg.connect for each host of libpq's `parameters` (PostgreSQL documentation, 34.1.2)."""
    known = conninfo.conninfo_to_dict(conninfo.make_conninfo("", **_libpq(parameters)))
    hosts = str(known.get("host", "")).split(",")
    ports = str(known.get("port", "") or "5432").split(",")
    common: dict[str, Any] = {
        "user": known.get("user"),
        "password": known.get("password"),
        "database": known.get("dbname"),
        "target_session_attrs": str(known.get("target_session_attrs", "any")),
        "server_settings": {"application_name": "callerid"}
        | {name: known[name] for name in ("application_name", "options") if name in known},
    }
    common["timeout"] = HOST_TIMEOUT_S if len(hosts) > 1 else float(known.get("connect_timeout") or 2)
    return [
        {**common, "host": host or None, "port": int(port), "ssl": _tls(known)}
        for host, port in zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)
    ]


def _libpq(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without what is Django's or psycopg's own."""
    own = {"client_encoding", "cursor_factory", "context", "prepare_threshold"}
    return {name: value for name, value in parameters.items() if name not in own and value not in (None, "")}


def _tls(known: dict[str, Any]) -> ssl.SSLContext | str:
    """asyncpg's `ssl` for libpq's sslmode, sslrootcert, sslcert and sslkey."""
    mode, root = str(known.get("sslmode", "prefer")), str(known.get("sslrootcert", ""))
    if mode in ("disable", "allow", "prefer"):
        return mode
    context = ssl.create_default_context() if root in ("", "system") else ssl.create_default_context(cafile=root)
    context.check_hostname = mode == "verify-full" or root == "system"
    if mode not in ("verify-ca", "verify-full") and not root:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate := known.get("sslcert"):
        context.load_cert_chain(certificate, known.get("sslkey") or None, known.get("sslpassword") or None)
    return context


@lru_cache(maxsize=128)
def _numbered(statement: str) -> str:
    """The statement with PostgreSQL's placeholders: $1 for the first %s."""
    first, *others = statement.split("%s")
    return first + "".join(f"${index}{text}" for index, text in enumerate(others, start=1))
