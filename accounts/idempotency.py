"""Idempotency keys: a retry of a search with its `Idempotency-Key` within 24 hours is replayed, not charged again.

A request claims its key before it calls any source, by one statement, and holds no lock afterwards. The claim ends in
the transaction of the charge, which stores the answer (accounts.debit), or by `release`, when the search failed. The
claim of a process that died expires; once another request has taken it over, the first can neither finish nor release
it.
"""

import asyncio
import json
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from accounts.models import ActiveToken, ApiToken, IdempotencyRecord
from core import admission, db
from core.hashing import keyed_hash
from core.retention import delete_in_batches

LIFETIME = timedelta(hours=24)
PRUNE_ROWS = 1_000
#: The time that a search may take beyond SEARCH_DEADLINE_S, for its token, its claim and its charge.
MARGIN_S = 0.5
#: The poll interval of a request that waits for another one with the same key: at first, and at most.
POLL_S, MAX_POLL_S = 0.01, 0.1
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class InvalidKey(ValueError):
    """The key is not 1 to 255 visible ASCII characters (U+0021 to U+007E)."""


class KeyReused(ValueError):
    """The key was used, or is in use, with another query."""


class StillInFlight(Exception):
    """Another request still holds the key's claim after the time to wait for it."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The whole body of the answer to replay."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to search with the key, until it expires and another request takes it over.

    `entry_id`: the ledger entry of an earlier request that paid for the search, whose answer was erased since.
    """

    token: ActiveToken | ApiToken
    key: str
    number: str
    record_id: int
    claim_id: str
    entry_id: int | None


def max_search_s() -> float:
    """How long a search may take, without waiting for another one with the same key."""
    return float(settings.SEARCH_DEADLINE_S + MARGIN_S)


def parse(header: str | None) -> str | None:
    """The key as sent, or None without the header. Raises InvalidKey."""
    if header is not None and not _KEY.fullmatch(header):
        raise InvalidKey
    return header


# Claims expire by the database's clock, because the clocks of hosts may differ.
_CLOCK = {
    "postgresql": {
        "now": "statement_timestamp()",
        "expiry": "statement_timestamp() + make_interval(secs => %s)",
    },
    "sqlite": {
        "now": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
        "expiry": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s || ' seconds')",
    },
}[db.VENDOR]
# A record can be claimed when its claim has expired or its number was erased.
_SELECT = """
SELECT r.number_hash IS NULL OR r.claim_expires_at <= {now}, r.number_hash, r.answer, r.entry_id IS NOT NULL
FROM accounts_idempotencyrecord r WHERE r.token_id = %s AND r.key_hash = %s AND r.created_at > %s
""".format(**_CLOCK)
_CLAIM = """
INSERT INTO accounts_idempotencyrecord AS r
    (token_id, key_hash, number_hash, entry_id, answer, claim_id, claim_expires_at, created_at)
VALUES (%s, %s, %s, NULL, '', %s, {expiry}, %s)
ON CONFLICT (token_id, key_hash) DO UPDATE
SET entry_id = CASE WHEN r.created_at > %s THEN r.entry_id END,
    number_hash = excluded.number_hash, answer = '', claim_id = excluded.claim_id,
    claim_expires_at = excluded.claim_expires_at, created_at = excluded.created_at
WHERE r.created_at <= %s OR r.number_hash IS NULL OR r.claim_expires_at <= {now}
RETURNING id, entry_id
""".format(**_CLOCK)
# Returns when a synchronous standby has the record, if there is one. A visible record may be missing there: PostgreSQL
# does not undo a commit whose session ends, or whose server restarts, while it waits for the standby. Locking the row
# writes to the WAL after that commit, so the standby has the record too when it has confirmed the commit of the lock.
_LOCK = """
SELECT id FROM accounts_idempotencyrecord
WHERE token_id = %s AND key_hash = %s AND current_setting('synchronous_standby_names') <> '' FOR UPDATE
"""
_RELEASE = """
DELETE FROM accounts_idempotencyrecord WHERE id = %s AND claim_id = %s AND claim_expires_at IS NOT NULL RETURNING id
"""
_RELEASE_PAID = """
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, number_hash = NULL
WHERE id = %s AND claim_id = %s AND claim_expires_at IS NOT NULL RETURNING id
"""


async def begin(*, token: ActiveToken | ApiToken, key: str, number: str, can_pay: bool) -> Replay | Claim | None:
    """The answer to replay from the last 24 hours, or a claim to search with the key.

    None: the key has no paid search, and `can_pay` is False. Where another request is searching for the same number,
    waits for it, at most SEARCH_DEADLINE_S + MARGIN_S, without a lock or a pooled connection. Raises KeyReused for
    another number, StillInFlight, CommitsSuspended and django.db's errors.
    """
    wait_deadline = time.monotonic() + max_search_s()
    poll_s = POLL_S
    record, hashed_number = (token.pk, keyed_hash("idempotency-key", key)), keyed_hash("number", number)
    while True:
        now = timezone.now()
        since = now - LIFETIME
        found: tuple[Any, ...] = await db.afetch_one(_SELECT, [*record, since]) or (True, None, "", False)
        claimable, number_hash, answer, paid = found
        if claimable:
            if not can_pay and not paid:
                return None
            claim_id, lifetime_s = secrets.token_hex(16), max_search_s()
            row = await db.acommit_one(_CLAIM, [*record, hashed_number, claim_id, lifetime_s, now, since, since])
            if row is not None:  # otherwise another request has claimed the key first
                return Claim(token, key, number, row[0], claim_id, row[1])
        elif bytes(number_hash) != hashed_number:
            raise KeyReused
        elif answer:  # without one, another request is still searching
            if db.VENDOR == "postgresql":
                await db.acommit_one(_LOCK, record)
            return Replay(json.loads(answer))
        if time.monotonic() >= wait_deadline:
            raise StillInFlight
        with admission.searches.released():
            await asyncio.sleep(poll_s)
        db.deadline.set(time.monotonic() + max_search_s())  # its own search begins only now
        poll_s = min(poll_s * 1.5, MAX_POLL_S)


async def release(claim: Claim) -> bool:
    """Make the key available again; a search that was paid for stays paid. False when the claim was lost."""
    statement = _RELEASE if claim.entry_id is None else _RELEASE_PAID
    return await db.acommit_one(statement, [claim.record_id, claim.claim_id]) is not None


async def release_after_failure(claim: Claim) -> None:
    """`release`; if that fails too, the claim expires on its own."""
    with suppress(DatabaseError, InterfaceError):
        await release(claim)


def prune() -> int:
    """Delete records older than 24 hours; returns how many."""
    expired = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - LIFETIME)
    return delete_in_batches(expired, PRUNE_ROWS)
