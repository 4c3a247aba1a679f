"""Prepared statements without psycopg's cursor.

The cursor is written in Python: with it a statement takes two thirds more CPU (docs/performance.md). psycopg still
converts, sends and waits, so `Connection.wait` limits the time (core.postgresql.base).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from secrets import token_hex
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.conf import settings
from psycopg import errors, generators, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq.abc import PGresult

#: The names of each connection's prepared statements, by their text.
_prepared: WeakKeyDictionary[psycopg.Connection[Any], dict[str, bytes]] = WeakKeyDictionary()
#: Unique to the process: behind a pooler that confuses sessions, no process executes the statement of another.
_name_prefix = token_hex(4)
_name_number = count()


def fetch_one(connection: psycopg.Connection[Any], statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
    """The first row, or None. Prepares the statement first where the connection has not. Raises psycopg's errors."""
    if not connection.autocommit:
        # psycopg's own cursor begins the transaction. Django's would put the values into the statement's text.
        cursor = psycopg.Cursor(connection).execute(statement, parameters)
        return cursor.fetchone() if cursor.description else None
    transformer = Transformer(connection)
    values = transformer.dump_sequence(parameters, [PyFormat.TEXT] * len(parameters))
    try:
        result = _execute(connection, statement, values)
    except (errors.FeatureNotSupported, errors.InvalidSqlStatementName):
        # The prepared statement is invalid and has not run: a column's type or a pooler's session has changed.
        _prepared.pop(connection, None)
        result = _execute(connection, statement, values)
    transformer.set_pgresult(result)
    return transformer.load_row(0, tuple) if result.ntuples else None


def _execute(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> PGresult:
    server = connection.pgconn
    if not settings.DB_PREPARE:
        server.send_query_params(_numbered(statement), values)
        return _wait(connection)
    names = _prepared.setdefault(connection, {})
    if statement not in names:
        name = f"callerid_{_name_prefix}_{next(_name_number)}".encode()
        server.send_prepare(name, _numbered(statement))
        _wait(connection)
        names[statement] = name
    server.send_query_prepared(names[statement], values)
    return _wait(connection)


def _wait(connection: psycopg.Connection[Any]) -> PGresult:
    """The result of what was sent last."""
    result = connection.wait(generators.execute(connection.pgconn))[-1]
    if connection.pgconn.status == pq.ConnStatus.BAD:
        raise errors.OperationalError(result.get_error_message())
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        raise errors.error_from_result(result)
    return result


@lru_cache(maxsize=64)
def _numbered(statement: str) -> bytes:
    """The statement with PostgreSQL's placeholders: $1 for the first %s."""
    first, *others = statement.split("%s")
    return (first + "".join(f"${index}{text}" for index, text in enumerate(others, start=1))).encode()
