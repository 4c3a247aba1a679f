"""Statements on PostgreSQL that each connection has parsed and planned once, sent by libpq itself.

psycopg's cursor is Python: with it a statement costs two thirds more CPU (docs/performance.md), and gives other threads
the interpreter several times on its way; here it is once, while the server is waited for. Values and rows are converted
by psycopg; of which type a parameter is, PostgreSQL takes from its place in the statement. In a transaction all is left
to psycopg's cursor.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from secrets import token_hex
from typing import Any, cast
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import Connection, Cursor
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import FeatureNotSupported, InvalidSqlStatementName, OperationalError, error_from_result
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

#: What is prepared is void: a column has changed its type, or a pooler has changed the session. It has not run.
_VOID = (FeatureNotSupported, InvalidSqlStatementName)
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

#: The names of what each connection has prepared, by the statements' texts.
_names: WeakKeyDictionary[Connection[Any], dict[str, bytes]] = WeakKeyDictionary()
#: No other process's, so that behind a pooler that cannot follow none runs another's statement.
_process = token_hex(4)
_number = count()


def one_row(database: BaseDatabaseWrapper, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Raises django.db's errors. It is the request's health check of the connection too."""
    database.ensure_connection()
    connection: Connection[Any] = database.connection
    with database.wrap_database_errors:
        if not connection.autocommit:  # psycopg's cursor begins the transaction
            cursor = Cursor(connection).execute(statement, parameters)
            return cursor.fetchone() if cursor.description else None
        converted = Transformer(connection)
        values = converted.dump_sequence(parameters, [PyFormat.TEXT] * len(parameters))
        try:
            result = _result(connection, statement, values)
        except _VOID:
            _names.pop(connection, None)
            result = _result(connection, statement, values)
        database.health_check_done = True  # type: ignore[attr-defined]
        converted.set_pgresult(result)
        return converted.load_row(0, tuple) if result.ntuples else None


def _result(connection: Connection[Any], statement: str, values: Sequence[Buffer | None]) -> PGresult:
    """Raises psycopg's errors."""
    server = connection.pgconn
    if not settings.DB_PREPARE:
        return _checked(server, server.exec_params(_numbered(statement), values))
    names = _names.setdefault(connection, {})
    if statement not in names:
        name = f"callerid_{_process}_{next(_number)}".encode()
        _checked(server, server.prepare(name, _numbered(statement)))
        names[statement] = name
    # psycopg's type leaves out that a value may be None.
    return _checked(server, server.exec_prepared(names[statement], cast(Sequence[Buffer], values)))


def _checked(server: PGconn, result: PGresult) -> PGresult:
    if server.status == ConnStatus.BAD:
        raise OperationalError(result.get_error_message())
    if result.status not in _DONE:
        raise error_from_result(result)
    return result


@lru_cache(maxsize=64)
def _numbered(statement: str) -> bytes:
    """With PostgreSQL's own placeholders: $1 for the first %s. No statement has a %%."""
    first, *others = statement.split("%s")
    return (first + "".join(f"${index}{text}" for index, text in enumerate(others, start=1))).encode()
