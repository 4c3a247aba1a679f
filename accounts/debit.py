"""The debit of a search: the statements that deduct the credit, and finding out whether a lost one was committed.

When the connection to PostgreSQL breaks before the reply, the server may have committed the debit, may still be
executing it, or may read it later. So each debit names the token's `charge_epoch`, and `close_debit` increases that
before it reads the ledger: its lock waits for a debit that is still running, and one that starts later finds another
epoch and changes nothing. Other searches of the token then repeat their debit with the new epoch.
"""

import logging
import time
from dataclasses import dataclass
from datetime import datetime

from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.models import F

from accounts import notices
from accounts.models import ApiToken, CreditEntry
from core.database_errors import describe
from core.db import Session, fetch_one

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 0.05

_DEDUCT_CREDIT = """
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
WHERE id = %s AND credits >= 1 AND charge_epoch = %s RETURNING id, credits, low_balance_at, contact, customer_id
"""
_WRITE_ENTRY = """
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
SELECT id, -1, credits, 'search', '', '', '', %s, %s, %s FROM {debited} RETURNING id, balance_after
"""
_POSTGRESQL_DEBIT = f"""
WITH debit AS ({_DEDUCT_CREDIT}), notice AS ({notices.WRITE_IF_LOW.format(debited="debit")})
{_WRITE_ENTRY.format(debited="debit")}
"""
_SQLITE_ENTRY = _WRITE_ENTRY.format(debited="(SELECT id, credits FROM accounts_apitoken WHERE id = %s) AS debit")


def close_debit(*, token_id: int, request_id: str, created_at: datetime) -> CreditEntry | None:
    """Makes sure the debit can no longer be committed, and returns its entry if it was.

    `created_at`, to the microsecond, identifies the entry, because clients may repeat the other values. Call it in a
    transaction, which locks the token's row. Its COMMIT also waits for a synchronous standby to have the entry.
    """
    ApiToken.objects.filter(pk=token_id).update(charge_epoch=F("charge_epoch") + 1)
    entries = CreditEntry.objects.filter(
        token_id=token_id, created_at=created_at, kind=CreditEntry.Kind.SEARCH, request_id=request_id
    )
    return entries.first()


@dataclass(frozen=True, slots=True)
class Debit:
    """One credit for one search. `epoch`: the token's `charge_epoch`. Tests compare the statements with the ORM."""

    token_id: int
    epoch: int
    request_id: str
    number_hash: bytes
    created_at: datetime

    def execute(self) -> tuple[int, int] | None:
        """The ledger entry's id and the new balance, or None: no credit was left."""
        epoch = self.epoch
        while (row := self._execute(epoch)) is None:
            tokens = ApiToken.objects.filter(pk=self.token_id, credits__gte=1)
            current = tokens.values_list("charge_epoch", flat=True).first()
            if current is None or current == epoch:
                return None
            epoch = current
        return row

    def _execute(self, epoch: int) -> tuple[int, int] | None:
        database = connections[DEFAULT_DB_ALIAS]
        created_at = database.ops.adapt_datetimefield_value(self.created_at)
        take = [created_at, self.token_id, epoch]
        entry = [self.request_id, self.number_hash, created_at]
        if database.vendor == "postgresql":
            notice = [created_at, created_at, -1, *notices.low_balance_parameters()]
            row = fetch_one(_POSTGRESQL_DEBIT, [*take, *notice, *entry])
        else:
            # SQLite has no WITH … UPDATE: separate statements, in one transaction or in the caller's.
            with transaction.atomic(savepoint=False):
                row = fetch_one(_DEDUCT_CREDIT, take)
                if row is not None:
                    notices.write_if_low(token_id=self.token_id, change=-1, at=self.created_at)
                    row = fetch_one(_SQLITE_ENTRY, [*entry, self.token_id])
        return None if row is None else (row[0], row[1])

    def find_balance(self, session: Session, deadline: float) -> int | None:
        """The balance after this debit on a lost session, or None: it was not committed.

        Tries at least once, and until `deadline` (time.monotonic); then logs that the outcome is unknown and raises
        django.db's last error. Ends the session first: a transaction that it has open would keep its locks.
        """
        while True:
            try:
                session.end()
                with transaction.atomic():
                    entry = close_debit(token_id=self.token_id, request_id=self.request_id, created_at=self.created_at)
                return None if entry is None else entry.balance_after
            except Error as error:
                if time.monotonic() + RETRY_INTERVAL_S >= deadline:
                    log.error("charge: connection lost, outcome unknown (token=%d)", self.token_id)
                    raise
                log.warning("charge: connection lost, the ledger cannot be read yet (%s)", describe(error))
                time.sleep(RETRY_INTERVAL_S)
