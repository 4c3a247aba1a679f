"""What a database error means for its connection, and what may be shown or logged about it: never a message that may
quote a row or a statement."""

from typing import Any

#: Classes of SQLSTATE, or codes, after which it is unknown whether the statement was committed: broken connections, and
#: servers that shut down, also while a commit waits for a standby.
_UNKNOWN = ("08", "57P")
#: Of further ones after which only a new connection can be expected to work. The server accepts no writes: it is not
#: the primary any more. The connection's prepared statements, or its search path, are not those of a new one.
_STALE = ("25006", "0A000", "26000", "42P05", "3F000", "42P01")

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


def describe(error: BaseException) -> str:
    """The error's type and, where it quotes no value, its message: SQLSTATE and message of PostgreSQL, and the messages
    of SQLite and of the connection to PostgreSQL."""
    name, module = type(error).__name__, type(error).__module__
    cause = error.__cause__ if module in ("django.db.utils", "core.db") else error
    detail = _detail(cause) if cause is not None else ""
    if module == "core.db" and cause is not None and not detail:
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
