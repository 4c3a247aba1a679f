"""The debit of a search: the statements that deduct the credit, write the ledger entry and store the answer, together
or not at all, and finding out whether a lost one was committed.

On PostgreSQL they are one statement, so that no transaction is open while the event loop does something else.

When the connection breaks before the reply, the server may have committed the debit, may still be executing it, or may
read it later. So each debit names the token's `charge_epoch`, and `find` increases that before it reads the ledger: its
lock waits for a debit that is still running, and one that starts later finds another epoch and changes nothing. Other
searches of the token then repeat their debit with the new epoch.

The states of an `Idempotency-Key`'s record, whose `entry_id` is the charge, and how a charge ends:

    record          claim_expires_at  number_hash  entry_id  answer  becomes
    none                                                             claimed by begin
    claimed         set               set          NULL      ''      charged by execute, free by answer_free,
                                                                     none by release
    charged         NULL              set          set       JSON    erased
    free            NULL              set          NULL      JSON    erased, free
    erased          NULL              NULL         set       ''      claimed, paid by begin
    erased, free    NULL              NULL         NULL      ''      claimed by begin
    claimed, paid   set               set          set       ''      charged by answer_paid, erased by release

    charge          entry_id  DebitResult.held  what charging.charge does
    committed       set       True          answers
    no credit left  None      True          releases the claim, and raises NoCreditsLeft
    epoch ended     None      True          executes the debit again, with the token's present epoch
    claim lost      None      False         uses the answer of the request that took the claim over, or charges for it
    reply lost                              calls `find`, until the search has to end: committed, or raises
                                            ConnectionLost; without a key unknown_charges settles what is unknown

A claim that has expired stays held until `begin` of another request takes it over, by another `claim_id`. Erasing the
number ends a claim: `claimed` becomes `erased, free`, and `claimed, paid` becomes `erased`. After 24 hours `begin`
treats any record as none, and `prune` deletes it.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from accounts.idempotency import Claim
from accounts.models import CreditEntry
from core import db

# --- PostgreSQL ------------------------------------------------------------------------------------------------------

_CHARGE = db.Statement("""
WITH debit AS (
    UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = :created_at
    WHERE id = :token_id AND credits >= 1 AND charge_epoch = :epoch
    RETURNING id, credits
)
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
SELECT id, -1, credits, 'search', '', '', '', :request_id, :number_hash, :created_at FROM debit
RETURNING true, id, balance_after
""")
# The claim is locked first: two charges with one claim take one credit, and a charge that waits here sees that the
# claim was taken over. The balance becomes the answer's last field.
_CHARGE_WITH_CLAIM = db.Statement("""
WITH claim AS MATERIALIZED (
    SELECT id FROM accounts_idempotencyrecord
    WHERE id = :record_id AND claim_id = :claim_id AND claim_expires_at IS NOT NULL AND entry_id IS NULL
    FOR UPDATE
), debit AS (
    UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = :created_at
    WHERE id = :token_id AND credits >= 1 AND charge_epoch = :epoch AND EXISTS (SELECT FROM claim)
    RETURNING id, credits
), entry AS (
    INSERT INTO accounts_creditentry
        (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
    SELECT id, -1, credits, 'search', '', '', '', :request_id, :number_hash, :created_at FROM debit
    RETURNING id, balance_after
), stored AS (
    UPDATE accounts_idempotencyrecord
    SET claim_expires_at = NULL, entry_id = entry.id, answer = :before_balance || entry.balance_after || '}'
    FROM entry WHERE accounts_idempotencyrecord.id = :record_id
)
SELECT EXISTS (SELECT FROM claim), (SELECT id FROM entry), (SELECT balance_after FROM entry)
""")

# --- SQLite, which has no UPDATE within WITH: in one transaction -----------------------------------------------------

_SQLITE_CLAIM = db.Statement("""
SELECT 1 FROM accounts_idempotencyrecord
WHERE id = :record_id AND claim_id = :claim_id AND claim_expires_at IS NOT NULL AND entry_id IS NULL
""")
_SQLITE_DEBIT = db.Statement("""
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = :created_at
WHERE id = :token_id AND credits >= 1 AND charge_epoch = :epoch
RETURNING credits
""")
_SQLITE_ENTRY = db.Statement("""
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
VALUES (:token_id, -1, :balance, 'search', '', '', '', :request_id, :number_hash, :created_at)
RETURNING id
""")
_SQLITE_ANSWER = db.Statement("""
UPDATE accounts_idempotencyrecord
SET claim_expires_at = NULL, entry_id = :entry_id, answer = :before_balance || :balance || '}'
WHERE id = :record_id
""")

# --- Both ------------------------------------------------------------------------------------------------------------

_ANSWER_PAID = db.Statement("""
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, answer = :before_balance || (
    SELECT balance_after FROM accounts_creditentry WHERE id = accounts_idempotencyrecord.entry_id
) || '}'
WHERE id = :record_id AND claim_id = :claim_id AND claim_expires_at IS NOT NULL
RETURNING (SELECT balance_after FROM accounts_creditentry WHERE id = accounts_idempotencyrecord.entry_id)
""")
_ANSWER_FREE = db.Statement("""
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, answer = :answer
WHERE id = :record_id AND claim_id = :claim_id AND claim_expires_at IS NOT NULL
RETURNING id
""")
_END_EPOCH = db.Statement("""
UPDATE accounts_apitoken SET charge_epoch = charge_epoch + 1 WHERE id = :token_id RETURNING id
""")
# `created_at`, to the microsecond, identifies the entry, because clients may repeat the other values.
_FIND = db.Statement("""
SELECT id, balance_after FROM accounts_creditentry
WHERE token_id = :token_id AND created_at = :created_at AND kind = 'search' AND request_id = :request_id
""")


@dataclass(frozen=True, slots=True)
class DebitResult:
    """`held`: whether the claim, if there is one, was held. `entry_id` and `balance`: None if no credit was taken."""

    held: bool
    entry_id: int | None
    balance: int | None


def close_debit(token_id: int, created_at: datetime, request_id: str) -> CreditEntry | None:
    """Makes sure the debit can no longer be committed, and returns its entry if it was.

    Call it in a transaction, which locks the token's row. Its COMMIT also waits for a synchronous standby to have the
    entry.
    """
    debit = {"token_id": token_id, "created_at": created_at, "request_id": request_id}
    db.run(*_END_EPOCH(debit))
    row = db.fetch_one(*_FIND(debit))
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

    async def execute(self) -> DebitResult:
        """Take the credit, if there is one, the epoch has not ended, and the claim is held. Raises core.db's
        errors: after ConnectionLost the outcome is unknown, after CommitsSuspended nothing was sent."""
        if db.VENDOR == "sqlite":
            return await db.acommit_with_connection(self._execute_on_sqlite)
        if self.claim is None:
            row = await db.acommit_one(*_CHARGE(self._values()))
            return DebitResult(*row) if row else DebitResult(True, None, None)
        return DebitResult(*await db.acommit_one(*_CHARGE_WITH_CLAIM(self._values() | self._answer(self.claim))))

    def _execute_on_sqlite(self) -> DebitResult:
        values = self._values()
        with transaction.atomic():
            if self.claim is not None:
                values |= self._answer(self.claim)
                if db.fetch_one(*_SQLITE_CLAIM(values)) is None:
                    return DebitResult(False, None, None)
            if (debited := db.fetch_one(*_SQLITE_DEBIT(values))) is None:
                return DebitResult(True, None, None)
            (values["balance"],) = debited
            (values["entry_id"],) = db.fetch_one(*_SQLITE_ENTRY(values))
            if self.claim is not None:
                db.run(*_SQLITE_ANSWER(values))
            return DebitResult(True, values["entry_id"], values["balance"])

    async def find(self) -> DebitResult:
        """What became of this debit, whose reply was lost; without a credit taken, it is certain that none will be. As
        `close_debit`, by one statement after the other. Raises core.db's errors.

        Also while commits are suspended: the debit, if it waits for its commit, holds the lock that the end of the
        epoch needs, so no further commit begins to wait."""
        values = self._values()
        await db.afetch_one(*_END_EPOCH(values))
        # The end of the epoch was committed after the entry, so a synchronous standby has the entry too.
        row = await db.afetch_one(*_FIND(values))
        return DebitResult(True, *row) if row else DebitResult(True, None, None)

    def _values(self) -> dict[str, Any]:
        return {
            "token_id": self.token_id,
            "epoch": self.epoch,
            "request_id": self.request_id,
            "number_hash": self.number_hash,
            "created_at": self.created_at,
        }

    def _answer(self, claim: Claim) -> dict[str, Any]:
        return _claimed(claim) | {"before_balance": before_balance(self.answer)}


def _claimed(claim: Claim) -> dict[str, Any]:
    return {"record_id": claim.record_id, "claim_id": claim.claim_id}


def before_balance(answer: dict[str, Any]) -> str:
    """The JSON text of `answer` up to the value of `credits_remaining`."""
    return json.dumps(answer, ensure_ascii=False)[:-1] + ', "credits_remaining": '


async def answer_paid(claim: Claim, answer: dict[str, Any]) -> int | None:
    """Store `answer` to a search that an earlier request paid for. The balance after that; None if the claim was
    lost."""
    row = await db.acommit_one(*_ANSWER_PAID(_claimed(claim) | {"before_balance": before_balance(answer)}))
    return row[0] if row else None


async def answer_free(claim: Claim, body: dict[str, Any]) -> bool:
    """Store `body`, which nobody pays for. False if the claim was lost."""
    values = _claimed(claim) | {"answer": json.dumps(body, ensure_ascii=False)}
    return await db.acommit_one(*_ANSWER_FREE(values)) is not None
