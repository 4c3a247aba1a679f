"""Statements on PostgreSQL that each connection has parsed and planned once, sent without psycopg's cursor.

The cursor is Python: with it a statement costs two thirds more CPU (docs/performance.md). Sending, waiting and
converting are psycopg's here too, so `Connection.wait` limits how long a statement may take (accounts.postgresql). Of
which type a parameter is, PostgreSQL takes from its place in the statement. In a transaction all is left to psycopg's
cursor.
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
from psycopg.generators import execute
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

#: What is prepared is void: a column has changed its type, or a pooler has changed the session. It has not run.
_VOID = (FeatureNotSupported, InvalidSqlStatementName)
_DONE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

#: The names of what each connection has prepared, by the statements' texts.
_names: WeakKeyDictionary[Connection[Any], dict[str, bytes]] = WeakKeyDictionary()
#: No other process's, so that behind a pooler that cannot follow none runs another's statement.
_process = token_hex(4)
_number = count()


def one_row(database: BaseDatabaseWrapper, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Raises django.db's errors."""
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
        converted.set_pgresult(result)
        return converted.load_row(0, tuple) if result.ntuples else None


def _result(connection: Connection[Any], statement: str, values: Sequence[Buffer | None]) -> PGresult:
    """Raises psycopg's errors."""
    server = connection.pgconn
    if not settings.DB_PREPARE:
        server.send_query_params(_numbered(statement), values)
        return _answer(connection)
    names = _names.setdefault(connection, {})
    if statement not in names:
        name = f"callerid_{_process}_{next(_number)}".encode()
        server.send_prepare(name, _numbered(statement))
        _answer(connection)
        names[statement] = name
    # psycopg's type leaves out that a value may be None.
    server.send_query_prepared(names[statement], cast(Sequence[Buffer], values))
    return _answer(connection)


def _answer(connection: Connection[Any]) -> PGresult:
    """To what was sent last. Raises psycopg's errors."""
    result = connection.wait(execute(connection.pgconn))[-1]
    if connection.pgconn.status == ConnStatus.BAD:
        raise OperationalError(result.get_error_message())
    if result.status not in _DONE:
        raise error_from_result(result)
    return result


@lru_cache(maxsize=64)
def _numbered(statement: str) -> bytes:
    """With PostgreSQL's own placeholders: $1 for the first %s. No statement has a %%."""
    first, *others = statement.split("%s")
    return (first + "".join(f"${index}{text}" for index, text in enumerate(others, start=1))).encode()
