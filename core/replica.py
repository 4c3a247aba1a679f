"""Reads that may be some seconds old, from a streaming replica of PostgreSQL (DATABASE_REPLICA_URL).

The primary is read instead while the replica fails or lags. Money, tokens and idempotency keys never come
from a replica.
"""

import logging
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections

from core import db
from core.database_errors import describe

log = logging.getLogger(__name__)

ALIAS = "replica"
#: A replica is not read while the newest commit that it has replayed is older than this, by its own clock.
MAX_LAG_S = 5.0
#: How long it is not read after it failed, and after it lagged. An idle primary, too, makes it seem to lag.
RETRY_AFTER_S, RETRY_LAG_AFTER_S = 5.0, 1.0
#: For MAX_LAG_S, for clocks that differ, and for commits that are replayed in another order than they were made.
REPLAY_WAIT_S = MAX_LAG_S + 1.0


class Replica:
    """Whether this process reads its replica."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._retry_at = 0.0
        self._failed = False

    def fetch_one(self, statement: str, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        """As core.db.fetch_one; None also for a row of NULLs."""
        if ALIAS in settings.DATABASES and self._claim_try():
            try:
                row = db.fetch_one(_unless_it_lags(statement), parameters, alias=ALIAS)
            except (DatabaseError, InterfaceError) as error:
                self._pause(RETRY_AFTER_S, describe(error))
            else:
                if row is not None:
                    self._record_success()
                    return row if any(value is not None for value in row) else None
                self._pause(RETRY_LAG_AFTER_S)
            finally:
                connections[ALIAS].close()  # back to its pool
        return db.fetch_one(statement, parameters)

    def _claim_try(self) -> bool:
        """After a failure, one search tries; the others read the primary meanwhile."""
        with self._lock:
            now = time.monotonic()
            if now < self._retry_at:
                return False
            if self._failed:
                self._retry_at = now + RETRY_AFTER_S
            return True

    def _pause(self, pause_s: float, failure: str | None = None) -> None:
        with self._lock:
            self._retry_at = time.monotonic() + pause_s
            if failure and not self._failed:
                log.warning("the replica failed, the primary is read instead (%s)", failure)
            self._failed = self._failed or failure is not None

    def _record_success(self) -> None:
        if self._failed:
            with self._lock:
                self._failed, self._retry_at = False, 0.0
            log.warning("the replica is read again")


#: This process's.
replica = Replica()


def wait_until_replayed() -> None:
    """Return once no search reads the replica as it was before this call."""
    if settings.DATABASE_REPLICA_URL:
        time.sleep(REPLAY_WAIT_S)


@lru_cache(maxsize=64)
def _unless_it_lags(statement: str) -> str:
    """`statement`, changed to return no row if the replica lags, and a row of NULLs where it would return none."""
    fresh = f"SELECT 1 WHERE pg_last_xact_replay_timestamp() > now() - interval '{MAX_LAG_S:g} s'"
    return f"SELECT found.* FROM ({fresh}) fresh LEFT JOIN ({statement}) found ON true"  # noqa: S608
