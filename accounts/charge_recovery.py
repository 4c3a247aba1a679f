"""Whether a charge stands whose connection to PostgreSQL broke before the reply came.

The server may have committed it, may still be at it, or may never have read it. So its session is ended first: what it
had not begun it never begins. Then the token's row is locked, which waits for a debit that is not over. Only then does
the ledger tell. (Behind a pooler, with DB_PREPARE=false, the session that we know is the pooler's, so it is not ended:
a debit that the pooler hands to the server only after that is not seen.)
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction

from accounts.models import ApiToken, CreditEntry
from accounts.sql import one_row

log = logging.getLogger(__name__)

PAUSE_S = 0.05
#: How long the lost session is waited for: less than a statement may take while serving.
SESSION_END_S = 0.3
_END_SESSION = """
SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity
WHERE pid = %s AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Session:
    """The connection on which a charge is made, and the process that serves it."""

    _connection: Any
    server_pid: int

    @classmethod
    def current(cls) -> Self | None:
        """Of this thread, connected if need be; None where no reply can be lost (SQLite), and inside a transaction,
        which decides itself whether the charge stands."""
        if connection.vendor != "postgresql" or connection.in_atomic_block:
            return None
        connection.ensure_connection()
        raw = connection.connection
        return cls(raw, getattr(raw, "server_pid", None) or raw.pgconn.backend_pid)

    @property
    def lost(self) -> bool:
        return bool(self._connection.closed)

    def balance_after(
        self, *, token_id: int, request_id: str, number_hash: bytes, created_at: datetime, deadline: float
    ) -> int | None:
        """The balance after the ledger row that a charge on this lost session wrote, or None: nothing was charged.

        The row is identified by its time, to the microsecond, beside what the caller has chosen. Tries until `deadline`
        (time.monotonic), once at least; then logs that the outcome is unknown and raises what the last try raised
        (OperationalError, InterfaceError).
        """
        while True:
            try:
                self._end()
                with transaction.atomic():
                    ApiToken.objects.select_for_update().values_list("pk").get(pk=token_id)
                    rows = CreditEntry.objects.filter(
                        token_id=token_id,
                        created_at=created_at,
                        kind=CreditEntry.Kind.SEARCH,
                        request_id=request_id,
                        number_hash=number_hash,
                    )
                    balance: int | None = rows.values_list("balance_after", flat=True).first()
                if balance is None and not settings.DB_PREPARE:
                    log.error("charge: its connection broke behind a pooler: it may still be made (token=%d)", token_id)
                return balance
            except (OperationalError, InterfaceError) as error:
                if time.monotonic() + PAUSE_S >= deadline:
                    log.error("charge: its connection broke, and whether it stands is unknown (token=%d)", token_id)
                    raise
                log.warning("charge: its connection broke, and the ledger cannot be asked (%s)", type(error).__name__)
                time.sleep(PAUSE_S)

    def _end(self) -> None:
        """On a new connection. Raises OperationalError when the session has not ended in time."""
        connection.close()
        if pool := getattr(connection, "pool", None):
            pool.drain()  # what broke one connection has most likely broken the others
        if not settings.DB_PREPARE:
            return
        ended = one_row(_END_SESSION, [int(SESSION_END_S * 1000), self.server_pid])
        if ended is not None and not ended[0]:
            raise OperationalError("The lost session goes on.")
