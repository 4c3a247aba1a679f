"""settings.DATABASES["default"] of both profiles. Raises ImproperlyConfigured for a database that cannot be used."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured


def sqlite(path: Path, *, busy_timeout_s: int) -> dict[str, Any]:
    # Created with this mode first: SQLite gives its -wal and -shm files the mode of the database.
    try:
        path.touch(mode=0o600)
    except OSError as error:
        raise ImproperlyConfigured(
            f"Cannot use the database in {path.parent}: {error.strerror}. "
            "Set CALLERID_DATA_DIR to a directory that you own."
        ) from error
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "CONN_MAX_AGE": None,  # one connection per thread: opening it and running its PRAGMAs costs more than a search
        "OPTIONS": {
            # With IMMEDIATE, a transaction waits for the write lock when it begins, up to the timeout, and does not
            # fail with "database is locked" at its first write.
            "transaction_mode": "IMMEDIATE",
            "timeout": busy_timeout_s,
            # recursive_triggers: the ledger's DELETE triggers also fire for rows that REPLACE deletes.
            # secure_delete: deleted data is overwritten in the file, however the SQLite library was built.
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA recursive_triggers=ON; "
                "PRAGMA secure_delete=ON;"
            ),
        },
    }


def postgresql(database: dict[str, Any], *, serving: bool, prepare: bool) -> dict[str, Any]:
    """`database`: as parsed from DATABASE_URL. `serving`: whether connections are kept, by the threads of the console's
    pages. `prepare`: DB_PREPARE. Searches have a pool of their own (core.postgresql.pool)."""
    if not database:
        raise ImproperlyConfigured(
            "DATABASE_URL must be postgres://user:password@host:5432/name, with special characters of the password "
            "percent-encoded (%40 is @) and IPv6 addresses in brackets."
        )
    if database["PASSWORD"] == "CHANGE":  # noqa: S105 - that of callerid.env.example
        raise ImproperlyConfigured("DATABASE_URL has the password CHANGE: write that of its role instead.")
    options = {
        # A server that no longer responds is detected within seconds (TCP keepalive), not the system's minutes.
        "connect_timeout": 2,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "tcp_user_timeout": 3000,
        **database["OPTIONS"],
        # psycopg's preparation keeps the texts of the last 100 statements in memory, and Django's contain values.
        "prepare_threshold": None,
    }
    configured = {**database, "ENGINE": "core.postgresql", "OPTIONS": options}
    if serving:
        configured |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
    # DB_PREPARE=false means a transaction pooler, which supports no server-side cursors either.
    return configured if prepare else {**configured, "DISABLE_SERVER_SIDE_CURSORS": True}
