"""The debit of a search: the statements that deduct the credit, write the ledger entry and store the answer, together
or not at all, and finding out whether a lost one was committed.

On PostgreSQL they are one statement, so that no transaction is open while the event loop does something else.

When the connection breaks before the reply, the server may have committed the debit, may still be executing it, or may
read it later. So each debit names the token's `charge_epoch`, and `find` increases that before it reads the ledger: its
lock waits for a debit that is still running, and one that starts later finds another epoch and changes nothing. Other
searches of the token then repeat their debit with the new epoch.
"""

# ruff: noqa: S608  (the parts of the statements are constants)
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts.idempotency import Claim
from accounts.models import CreditEntry
from core import db

_DEDUCT_CREDIT = """
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
WHERE id = %s AND credits >= 1 AND charge_epoch = %s {condition}
RETURNING id, credits
"""
_WRITE_ENTRY = """
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
SELECT id, -1, credits, 'search', '', '', '', %s, %s, %s FROM {debited} RETURNING id, balance_after
"""
#: The balance becomes the answer's last field.
_STORE_ANSWER = """
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, entry_id = {entry_id}, answer = %s || {balance} || '}}'
{source} WHERE accounts_idempotencyrecord.id = %s
"""
_HELD = "claim_id = %s AND claim_expires_at IS NOT NULL"

# The claim is locked first: two charges with one claim take one credit, and a charge that waits here sees that the
# claim was taken over.
_CLAIM = f"""claim AS MATERIALIZED (
    SELECT id FROM accounts_idempotencyrecord WHERE id = %s AND {_HELD} AND entry_id IS NULL FOR UPDATE
)"""
_ENTRY = f"entry AS ({_WRITE_ENTRY.format(debited='debit')})"
_CHARGE = f"""
WITH debit AS ({_DEDUCT_CREDIT.format(condition="")}), {_ENTRY}
SELECT true, id, balance_after FROM entry
"""
_CHARGE_WITH_CLAIM = f"""
WITH {_CLAIM}, debit AS ({_DEDUCT_CREDIT.format(condition="AND EXISTS (SELECT FROM claim)")}), {_ENTRY},
stored AS ({_STORE_ANSWER.format(entry_id="entry.id", balance="entry.balance_after", source="FROM entry")})
SELECT EXISTS (SELECT FROM claim), entry.id, entry.balance_after FROM (VALUES (1)) AS one LEFT JOIN entry ON true
"""
_SQLITE_ENTRY = _WRITE_ENTRY.format(debited="(SELECT id, credits FROM accounts_apitoken WHERE id = %s) AS debit")
_IS_HELD = f"SELECT 1 FROM accounts_idempotencyrecord WHERE id = %s AND {_HELD} AND entry_id IS NULL"
_STORE = f"""
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, answer = %s WHERE id = %s AND {_HELD} RETURNING id
"""
_STORE_PAID = f"""
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, answer = %s || (
    SELECT balance_after FROM accounts_creditentry WHERE id = accounts_idempotencyrecord.entry_id
) || '}}' WHERE id = %s AND {_HELD} RETURNING (
    SELECT balance_after FROM accounts_creditentry WHERE id = accounts_idempotencyrecord.entry_id
)
"""


_END_EPOCH = "UPDATE accounts_apitoken SET charge_epoch = charge_epoch + 1 WHERE id = %s RETURNING id"
# `created_at`, to the microsecond, identifies the entry, because clients may repeat the other values.
_FIND = """
SELECT id, balance_after FROM accounts_creditentry
WHERE token_id = %s AND created_at = %s AND kind = 'search' AND request_id = %s
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`held`: whether the claim, if there is one, was held. `entry_id` and `balance`: None if no credit was taken."""

    held: bool
    entry_id: int | None
    balance: int | None


def close_debit(token_id: int, created_at: datetime, request_id: str) -> CreditEntry | None:
    """Makes sure the debit can no longer be committed, and returns its entry if it was.

    Call it in a transaction, which locks the token's row. Its COMMIT also waits for a synchronous standby to have the
    entry.
    """
    db.run(_END_EPOCH, [token_id])
    row = db.fetch_one(_FIND, [token_id, created_at, request_id])
    return CreditEntry.objects.get(pk=row[0]) if row else None


@dataclass(frozen=True, slots=True)
class Debit:
    """One credit for one search. `epoch`: the token's `charge_epoch`. `answer`: the body without `credits_remaining`,
    its last field. Tests compare the statements with the ORM."""

    token_id: int
    epoch: int
    request_id: str
    number_hash: bytes
    created_at: datetime
    answer: dict[str, Any]
    claim: Claim | None

    async def execute(self) -> Outcome:
        """Take the credit, if there is one, the epoch has not ended, and the claim is held. Raises core.db's
        errors: after ConnectionLost the outcome is unknown, after CommitsSuspended nothing was sent."""
        if db.VENDOR == "sqlite":
            return await db.acommit_with_connection(self._execute_on_sqlite)
        taken = [self.created_at, self.token_id, self.epoch]
        entry = [self.request_id, self.number_hash, self.created_at]
        if self.claim is None:
            row = await db.acommit_one(_CHARGE, [*taken, *entry])
            return Outcome(*row) if row else Outcome(True, None, None)
        held = [self.claim.record_id, self.claim.claim_id]
        stored = [before_balance(self.answer), self.claim.record_id]
        return Outcome(*await db.acommit_one(_CHARGE_WITH_CLAIM, [*held, *taken, *entry, *stored]))

    def _execute_on_sqlite(self) -> Outcome:
        """SQLite has no UPDATE within WITH: separate statements, in one transaction."""
        with transaction.atomic():
            if self.claim is not None and not db.fetch_one(_IS_HELD, [self.claim.record_id, self.claim.claim_id]):
                return Outcome(False, None, None)
            taken = [self.created_at, self.token_id, self.epoch]
            if db.fetch_one(_DEDUCT_CREDIT.format(condition=""), taken) is None:
                return Outcome(True, None, None)
            entry = [self.request_id, self.number_hash, self.created_at, self.token_id]
            entry_id, balance = db.fetch_one(_SQLITE_ENTRY, entry)
            if self.claim is not None:
                statement = _STORE_ANSWER.format(entry_id="%s", balance="%s", source="")
                db.run(statement, [entry_id, before_balance(self.answer), balance, self.claim.record_id])
            return Outcome(True, entry_id, balance)

    async def find(self) -> Outcome:
        """What became of this debit, whose reply was lost; without a credit taken, it is certain that none will be. As
        `close_debit`, by one statement after the other. Raises core.db's errors.

        Also while commits are suspended: the debit, if it waits for its commit, holds the lock that the end of the
        epoch needs, so no further commit begins to wait."""
        await db.afetch_one(_END_EPOCH, [self.token_id])
        # The end of the epoch was committed after the entry, so a synchronous standby has the entry too.
        row = await db.afetch_one(_FIND, [self.token_id, self.created_at, self.request_id])
        return Outcome(True, *row) if row else Outcome(True, None, None)


def before_balance(answer: dict[str, Any]) -> str:
    """The JSON text of `answer` up to the value of `credits_remaining`."""
    return json.dumps(answer, ensure_ascii=False)[:-1] + ', "credits_remaining": '


async def answer_paid(claim: Claim, answer: dict[str, Any]) -> int | None:
    """Store `answer` to a search that an earlier request paid for. The balance after that; None if the claim was
    lost."""
    row = await db.acommit_one(_STORE_PAID, [before_balance(answer), claim.record_id, claim.claim_id])
    return row[0] if row else None


async def answer_free(claim: Claim, body: dict[str, Any]) -> bool:
    """Store `body`, which nobody pays for. False if the claim was lost."""
    parameters = [json.dumps(body, ensure_ascii=False), claim.record_id, claim.claim_id]
    return await db.acommit_one(_STORE, parameters) is not None
