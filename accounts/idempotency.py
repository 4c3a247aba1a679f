"""Retries that are not charged again: the `Idempotency-Key` of a search, remembered for 24 hours.

A key is claimed before any source is asked, by one statement of its own; no lock is held afterwards. The claim ends by
`finish`, in the debit's transaction (credits.charge), or by `release`, when the search failed. The claim of a process
that died expires; once another request has taken it over, it can neither finish nor be released.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from accounts.hashing import keyed_hash
from accounts.models import ApiToken, IdempotencyRecord
from accounts.pruning import delete_in_chunks
from accounts.sql import one_row
from accounts.turns import give_connection_back

LIFETIME = timedelta(hours=24)
PRUNE_ROWS = 1_000
#: What a search takes beside SEARCH_DEADLINE_S: its claim and its charge, of which each statement has half a second.
MARGIN_S = 0.5
#: How long a request that waits for another one pauses between two looks: at first, and at most.
PAUSE_S, MAX_PAUSE_S = 0.01, 0.1
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class InvalidKey(ValueError):
    """Not 1 to 255 characters U+0021 to U+007E."""


class KeyReused(ValueError):
    """The key was used, or is being used, with another query."""


class StillInFlight(Exception):
    """Another request is still searching with the key, and the time to wait for it is over."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What the key's search answered: the whole body."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to search with the key, until it expires and another request takes it over.

    `entry_id`: the ledger row by which the search was paid for before, where its answer was forgotten since.
    """

    token: ApiToken
    key: str
    number: str
    record_id: int
    claim_id: str
    entry_id: int | None


def parse(header: str | None) -> str | None:
    """The key as sent, or None where there is none. Raises InvalidKey."""
    if header is not None and not _KEY.fullmatch(header):
        raise InvalidKey
    return header


# Claims expire by the database's clock: hosts need not agree on the time to the second.
_CLOCK = {
    "postgresql": {
        "now": "statement_timestamp()",
        "expiry": "statement_timestamp() + make_interval(secs => %s)",
    },
    "sqlite": {
        "now": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now')",
        "expiry": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', %s || ' seconds')",
    },
}
# Anyone may claim a record whose claim has expired, and one that no longer says which number it was for.
_RECALL = """
SELECT r.number_hash IS NULL OR r.claim_expires_at <= {now}, r.number_hash, r.answer, r.entry_id IS NOT NULL
FROM accounts_idempotencyrecord r WHERE r.token_id = %s AND r.key_hash = %s AND r.created_at > %s
"""
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
"""
# Whose claim was taken over finds no row.
_FINISH = """
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, entry_id = %s, answer = %s
WHERE id = %s AND claim_id = %s AND claim_expires_at IS NOT NULL RETURNING id
"""
_DELETE = """
DELETE FROM accounts_idempotencyrecord
WHERE id = %s AND claim_id = %s AND claim_expires_at IS NOT NULL RETURNING id
"""
_EMPTY = """
UPDATE accounts_idempotencyrecord SET claim_expires_at = NULL, number_hash = NULL
WHERE id = %s AND claim_id = %s AND claim_expires_at IS NOT NULL RETURNING id
"""


@lru_cache(maxsize=4)
def _with_clock(statement: str, vendor: str) -> str:
    return statement.format(**_CLOCK[vendor])


def begin(*, token: ApiToken, key: str, number: str, can_pay: bool) -> Replay | Claim | None:
    """What the key's search answered within the last 24 hours, or else the claim to search with it.

    None: nobody has searched with it, and a new search would have to be paid, which `can_pay` denies. Where another
    request is searching for the same number, waits for it, SEARCH_DEADLINE_S and MARGIN_S at most, and holds no lock
    and no connection of the pool meanwhile. Raises KeyReused for another number, StillInFlight.
    """
    give_up_at = time.monotonic() + settings.SEARCH_DEADLINE_S + MARGIN_S
    pause_s = PAUSE_S
    while True:
        record = _recall(token, key)
        if record is None or record.open:
            if not can_pay and not (record and record.paid):
                return None
            if claim := _claim(token, key, number):
                return claim
        elif record.number_hash != keyed_hash("number", number):
            raise KeyReused
        elif record.answer:
            return Replay(json.loads(record.answer))
        if time.monotonic() >= give_up_at:
            raise StillInFlight
        give_connection_back()
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, MAX_PAUSE_S)


@dataclass(frozen=True, slots=True)
class _Record:
    """`open`: it may be claimed. Otherwise an empty `answer` is a claim of another request."""

    open: bool
    number_hash: bytes | None
    answer: str
    paid: bool


def _recall(token: ApiToken, key: str) -> _Record | None:
    adapt = connection.ops.adapt_datetimefield_value
    row = one_row(
        _with_clock(_RECALL, connection.vendor),
        [token.pk, keyed_hash("idempotency-key", key), adapt(timezone.now() - LIFETIME)],
    )
    if row is None:
        return None
    is_open, number_hash, answer, paid = row
    return _Record(bool(is_open), None if number_hash is None else bytes(number_hash), answer, bool(paid))


def _claim(token: ApiToken, key: str, number: str) -> Claim | None:
    """None when another request has been quicker."""
    now, adapt = timezone.now(), connection.ops.adapt_datetimefield_value
    since, claim_id = adapt(now - LIFETIME), secrets.token_hex(16)
    row = one_row(
        _with_clock(_CLAIM, connection.vendor),
        [
            *(token.pk, keyed_hash("idempotency-key", key), keyed_hash("number", number)),
            *(claim_id, settings.SEARCH_DEADLINE_S + MARGIN_S, adapt(now)),
            *(since, since),
        ],
    )
    return Claim(token, key, number, row[0], claim_id, row[1]) if row else None


def finish(*, claim: Claim, entry_id: int | None, body: dict[str, Any]) -> bool:
    """Store what the record answers from now on. False, and nothing is stored, when the claim was lost: then the
    caller's transaction must not commit either."""
    answer = json.dumps(body, ensure_ascii=False)
    return one_row(_FINISH, [entry_id, answer, claim.record_id, claim.claim_id]) is not None


def release(claim: Claim) -> bool:
    """Give the key back unused; a search that was paid for before stays paid. False when the claim was lost."""
    statement = _DELETE if claim.entry_id is None else _EMPTY
    return one_row(statement, [claim.record_id, claim.claim_id]) is not None


@contextmanager
def released_on_failure(claim: Claim | None) -> Iterator[None]:
    """Release `claim` when the block raises. Where that fails too, the claim expires by itself."""
    try:
        yield
    except BaseException:
        if claim is not None:
            with suppress(DatabaseError, InterfaceError):
                release(claim)
        raise


def prune() -> int:
    """Delete the records whose 24 hours are over; how many."""
    expired = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - LIFETIME)
    return delete_in_chunks(expired, PRUNE_ROWS)
