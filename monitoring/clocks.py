"""Whether this host's clock agrees with the database's: tokens expire by the host's clock."""

import time

from core import db

#: Claims of idempotency keys expire by the database's clock, tokens by the host's.
MAX_DIFFERENCE_S = 1.0
ADVICE = "Synchronize all hosts by NTP."


def database_ahead_s() -> float | None:
    """How far PostgreSQL's clock is ahead of this host's, beyond what the round trip explains; None on SQLite, which
    has none. Raises django.db's errors."""
    if db.VENDOR == "sqlite":
        return None
    _database_time()  # connects
    before = time.time()
    database = _database_time()
    after = time.time()
    return database - min(max(database, before), after)


def _database_time() -> float:
    """PostgreSQL's UNIX time."""
    return float(db.fetch_one("SELECT extract(epoch FROM clock_timestamp())")[0])
