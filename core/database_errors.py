"""What a database error means, for its connection and for other searches, and what may be shown or logged about it:
never a message that may quote a row or a statement."""

import re
import sqlite3
from typing import Any

from django.db import DataError, Error, IntegrityError, OperationalError, connection


class NotSent(OperationalError):
    """No connection could be had in time, so the statement has not run."""


class OutOfTime(NotSent):
    """The search's time was over, or all pooled connections were in use: this says nothing about the server. No commit
    was sent; a read may have been. `wait_s`: Retry-After in seconds."""

    wait_s = 1


class ConnectionLost(OperationalError):
    """The connection broke, or no reply came in time: whether the statement has run is unknown."""


class TimedOut(ConnectionLost):
    """No reply came in time, not even that the server has ended the statement after DB_STATEMENT_TIMEOUT_MS.
    `process`: the id of the server's process, which may still be executing it."""

    process: int | None = None


#: Classes of SQLSTATE, or codes, after which it is unknown whether the statement was committed: broken connections, and
#: servers that shut down, also while a commit waits for a standby.
_UNKNOWN = ("08", "57P")
#: Of further ones after which only a new connection can be expected to work. The server accepts no writes: it is not
#: the primary any more. The connection's prepared statements, or its search path, are not those of a new one.
_STALE = ("25006", "0A000", "26000", "42P05", "3F000", "42P01")

#: SQLSTATEs of a statement that another one did not let run in time.
_BLOCKED = ("40", "55", "57014")
#: What libpq says without an SQLSTATE when it cannot connect.
_REFUSALS = {
    "53300": re.compile("too many clients|too many connections|slots are reserved"),
    "57P03": re.compile("the database system is "),
    "25006": re.compile("session is read-only|server is in hot standby mode"),
}
_READ_ONLY = "The database accepts no writes: it is a standby, or set to read-only"
_ONLY_WRITABLE = (
    "Set target_session_attrs=read-write in DATABASE_URL, also with a single host name, to use only a server that does"
)
_SENTENCES = {
    "53100": "The disk of the database is full",
    "53300": "The database has no connection left: all those of the server, or of this role, are in use",
    "57P03": "The database is starting, stopping or recovering",
}
#: SQLite's errors that concern its file, not a statement.
_OF_FILE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
}

#: Classes of SQLSTATE whose messages name hosts, roles, databases, tables and limits, but no values: unsupported
#: features (such as a changed plan), connections, transaction states, authorization, unknown databases, rollbacks,
#: resources, locks, interventions of an operator (such as time limits), the system.
_CLASSES = frozenset({"0A", "08", "25", "28", "3D", "40", "53", "55", "57", "58"})
#: Of the others: unknown table, unknown column, missing privilege.
_CODES = frozenset({"42P01", "42703", "42501"})


def is_outcome_unknown(sqlstate: str | None) -> bool:
    return sqlstate is None or sqlstate.startswith(_UNKNOWN)


def is_connection_stale(sqlstate: str) -> bool:
    """Whether the statement failed because of its connection, which is not used again."""
    return sqlstate in _STALE


def concerns_all_searches(error: BaseException) -> bool:
    """Whether a search failed by the state of the database: not by its values, nor by a lock that others do not need.
    `error`: as raised by core.db."""
    if not isinstance(error, Error) or isinstance(error, DataError | IntegrityError | OutOfTime):
        return False
    cause = error.__cause__
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _OF_FILE
    return not sqlstate(error).startswith(_BLOCKED)


def explain(error: BaseException, otherwise: str) -> str:
    """One sentence about an error of the database, for those who may not read the log."""
    code = sqlstate(error)
    return explain_read_only() if code == "25006" else _SENTENCES.get(code, otherwise)


def explain_read_only() -> str:
    """One sentence about a server that accepts no writes; with advice, unless it was followed."""
    is_set = "target_session_attrs" in connection.settings_dict["OPTIONS"]
    return _READ_ONLY if is_set else f"{_READ_ONLY}. {_ONLY_WRITABLE}"


def sqlstate(error: BaseException) -> str:
    """The SQLSTATE, also of an SQLite file whose disk is full; empty if it is unknown."""
    cause: Any = error.__cause__ or error
    code = str(getattr(cause, "sqlstate", None) or "")
    if code and code != "08P01":  # PgBouncer's, which quotes what PostgreSQL has said
        return code
    if isinstance(cause, sqlite3.Error):
        return "53100" if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL else ""
    return next((known for known, words in _REFUSALS.items() if words.search(str(cause))), code)


def describe(error: BaseException) -> str:
    """The error's type and, where it quotes no value, its message: SQLSTATE and message of PostgreSQL, and the messages
    of SQLite and of the connection to PostgreSQL."""
    name, module = type(error).__name__, type(error).__module__
    cause = error.__cause__ if module in ("django.db.utils", __name__) else error
    detail = _detail(cause) if cause is not None else ""
    if module == __name__ and cause is not None and not detail:
        # The operating system's messages about a connection name its host and port.
        detail = (str(cause) if isinstance(cause, OSError) else "") or type(cause).__name__
    return f"{name}: {detail}" if detail else name


def _detail(error: Any) -> str:
    if type(error).__module__ == "sqlite3":  # names tables and columns, but no values
        return str(error)
    module = type(error).__module__
    if not module.startswith(("psycopg", "asyncpg")):
        return ""
    code = getattr(error, "sqlstate", None)
    if code is None:
        # The client's own errors: libpq's about the connection. asyncpg's may quote a parameter.
        connection_error = any(base.__name__ == "OperationalError" for base in type(error).__mro__)
        return " ".join(str(error).split()) if connection_error else ""
    if code in _CODES or code[:2] in _CLASSES:
        return f"{code} {error.args[0] if module.startswith('asyncpg') else error.diag.message_primary}"
    return str(code)
