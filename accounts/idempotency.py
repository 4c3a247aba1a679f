"""Retries that are not charged again: the `Idempotency-Key` of a search, remembered for 24 hours (credits.charge
writes the records)."""

import json
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from accounts.hashing import keyed_hash
from accounts.models import ApiToken, IdempotencyRecord
from accounts.pruning import delete_in_chunks
from accounts.sql import one_row

LIFETIME = timedelta(hours=24)
PRUNE_ROWS = 1_000
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class InvalidKey(ValueError):
    """Not 1 to 255 characters U+0021 to U+007E."""


class KeyReused(ValueError):
    """The key was used with another query."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A search that was paid for. `body` is None when its number has been forgotten since."""

    body: dict[str, Any] | None
    credits_remaining: int


def parse(header: str | None) -> str | None:
    """The key as sent, or None where there is none. Raises InvalidKey."""
    if header is not None and not _KEY.fullmatch(header):
        raise InvalidKey
    return header


_RECALL = """
SELECT r.number_hash, r.answer, COALESCE(e.balance_after, t.credits)
FROM accounts_idempotencyrecord r
JOIN accounts_apitoken t ON t.id = r.token_id
LEFT JOIN accounts_creditentry e ON e.id = r.entry_id
WHERE r.token_id = %s AND r.key_hash = %s AND r.created_at > %s
"""
_CLAIM = """
INSERT INTO accounts_idempotencyrecord (token_id, key_hash, number_hash, entry_id, answer, created_at)
VALUES (%s, %s, %s, NULL, '', %s)
ON CONFLICT (token_id, key_hash) DO UPDATE
SET number_hash = excluded.number_hash, entry_id = NULL, answer = '', created_at = excluded.created_at
WHERE accounts_idempotencyrecord.created_at <= %s
RETURNING id
"""
_STORE = "UPDATE accounts_idempotencyrecord SET entry_id = %s, answer = %s WHERE id = %s"


def recall(*, token: ApiToken, key: str, number: str) -> Earlier | None:
    """What this key's search answered within the last 24 hours. Raises KeyReused when it was for another number."""
    since = connection.ops.adapt_datetimefield_value(timezone.now() - LIFETIME)
    row = one_row(_RECALL, [token.pk, keyed_hash("idempotency-key", key), since])
    if row is None:
        return None
    number_hash, answer, credits_remaining = row
    if bytes(number_hash) != keyed_hash("number", number):
        raise KeyReused
    return Earlier(json.loads(answer) if answer else None, credits_remaining)


def claim(*, token: ApiToken, key: str, number: str) -> int | None:
    """The id of a fresh record for this key, an expired one taken over; None when a live one holds it.

    Inside a transaction: a claim in flight elsewhere is waited for.
    """
    now = timezone.now()
    adapt = connection.ops.adapt_datetimefield_value
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            [
                token.pk,
                keyed_hash("idempotency-key", key),
                keyed_hash("number", number),
                adapt(now),
                adapt(now - LIFETIME),
            ],
        )
        rows = cursor.fetchall()
    return rows[0][0] if rows else None


def store(*, record_id: int, entry_id: int | None, body: dict[str, Any]) -> None:
    """What a claimed record answers from now on."""
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [entry_id, json.dumps(body, ensure_ascii=False), record_id])


def prune() -> int:
    """Delete the records whose 24 hours are over; how many."""
    expired = IdempotencyRecord.objects.filter(created_at__lte=timezone.now() - LIFETIME)
    return delete_in_chunks(expired, PRUNE_ROWS)
