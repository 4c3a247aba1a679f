"""The only code that changes a balance: each change is one guarded UPDATE and one ledger row, in one transaction."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone

from accounts import idempotency
from accounts.hashing import keyed_hash
from accounts.models import ApiToken, CreditEntry

MAX_AMOUNT = 10**9
MAX_BALANCE = 10**15


class NoCreditsLeft(Exception):
    """The token cannot pay for a search."""


class InvalidAmount(ValueError):
    """An amount that cannot be booked; the message says why."""


class ReferenceConflict(ValueError):
    """The reference was used for another booking of this token."""


def move(
    *, token: ApiToken, amount: int, kind: CreditEntry.Kind, actor: str, reason: str, reference: str = ""
) -> CreditEntry:
    """Book `amount` (signed, whole) and its ledger row. Raises InvalidAmount when the balance would leave its range."""
    if not abs(amount) <= MAX_AMOUNT:
        raise InvalidAmount(f"At most {MAX_AMOUNT} credits at once.")
    with transaction.atomic():
        moved = ApiToken.objects.filter(pk=token.pk, credits__gte=-amount, credits__lte=MAX_BALANCE - amount).update(
            credits=F("credits") + amount
        )
        if not moved:
            raise InvalidAmount(f"The balance must stay between 0 and {MAX_BALANCE}.")
        return CreditEntry.objects.create(
            token_id=token.pk,
            amount=amount,
            balance_after=ApiToken.objects.values_list("credits", flat=True).get(pk=token.pk),
            kind=kind,
            actor=actor[:150],
            reason=reason,
            reference=reference,
        )


def top_up(*, token: ApiToken, amount: int, actor: str, reason: str, reference: str = "") -> CreditEntry:
    """Add `amount` (1 or more) credits. The same `reference` again is the same top-up: its row is returned, unchanged.

    Raises InvalidAmount, and ReferenceConflict when the reference stands for another amount or kind.
    """
    if amount < 1:
        raise InvalidAmount("A top-up is 1 credit or more.")
    return _book(token, amount, CreditEntry.Kind.TOP_UP, actor, reason, reference)


def adjust(*, token: ApiToken, amount: int, actor: str, reason: str, reference: str = "") -> CreditEntry:
    """Correct the balance by `amount`, up or down, never below 0. References and errors as in `top_up`."""
    if amount == 0:
        raise InvalidAmount("An adjustment of 0 changes nothing.")
    return _book(token, amount, CreditEntry.Kind.ADJUSTMENT, actor, reason, reference)


def _book(token: ApiToken, amount: int, kind: CreditEntry.Kind, actor: str, reason: str, reference: str) -> CreditEntry:
    reason, reference = reason.strip(), reference.strip()
    if not 1 <= len(reason) <= 200:
        raise ValueError("A reason of 1 to 200 characters is needed.")
    if len(reference) > 100:
        raise ValueError("A reference has at most 100 characters.")
    try:
        return _booked(token, amount, kind, reference) or move(
            token=token, amount=amount, kind=kind, actor=actor, reason=reason, reference=reference
        )
    except IntegrityError:
        # Two bookings with one reference at the same moment: the constraint let one through, this is the other.
        if (entry := _booked(token, amount, kind, reference)) is None:
            raise
        return entry


def _booked(token: ApiToken, amount: int, kind: CreditEntry.Kind, reference: str) -> CreditEntry | None:
    entry = CreditEntry.objects.filter(token_id=token.pk, reference=reference).first() if reference else None
    if entry is not None and (entry.amount, entry.kind) != (amount, kind):
        raise ReferenceConflict("This reference was used for another booking of this token.")
    return entry


@dataclass(frozen=True, slots=True)
class Charge:
    """`body`: the whole answer, `credits_remaining` included. `replayed`: it had been paid for before."""

    body: dict[str, Any]
    replayed: bool = False


def charge(
    *,
    token: ApiToken,
    request_id: str,
    number: str,
    answer: dict[str, Any],
    idempotency_key: str | None = None,
    cost: int = 1,
) -> Charge:
    """Take `cost` credits (1, or 0 for an answer given away) for `answer`, all or nothing.

    With an idempotency key, in one transaction: claim the record, debit, ledger row, answer. Whoever loses the claim
    gets the winner's body and pays nothing. Raises NoCreditsLeft (nothing is written then) and
    idempotency.KeyReused.
    """
    debit = Debit(token=token, request_id=request_id, number_hash=keyed_hash("number", number), cost=cost)
    if idempotency_key is None:
        _, balance = debit.take()
        return Charge({**answer, "credits_remaining": balance})
    while True:
        with transaction.atomic():
            if (record_id := idempotency.claim(token=token, key=idempotency_key, number=number)) is not None:
                entry_id, balance = debit.take()
                body = {**answer, "credits_remaining": balance}
                idempotency.store(record_id=record_id, entry_id=entry_id, body=body)
                return Charge(body)
        earlier = idempotency.recall(token=token, key=idempotency_key, number=number)
        if earlier is not None:
            return Charge(earlier.body or {**answer, "credits_remaining": earlier.credits_remaining}, replayed=True)
        # The winner's record expired or was pruned in between: the next claim takes it.


@dataclass(frozen=True, slots=True)
class Debit:
    """One search's charge. The statements stand here alone; tests hold them against their ORM form."""

    token: ApiToken
    request_id: str
    number_hash: bytes
    cost: int

    def take(self) -> tuple[int | None, int]:
        """The ledger row's id (None when it cost nothing) and the balance after. Raises NoCreditsLeft."""
        if self.cost == 0:
            return None, ApiToken.objects.values_list("credits", flat=True).get(pk=self.token.pk)
        taken = self._take_postgresql() if connection.vendor == "postgresql" else self._take_sqlite()
        if taken is None:
            raise NoCreditsLeft
        return taken

    def _take_postgresql(self) -> tuple[int, int] | None:
        now = timezone.now()
        with connection.cursor() as cursor:
            cursor.execute(
                """
                WITH debit AS (
                    UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
                    WHERE id = %s AND credits >= 1 RETURNING id, credits
                )
                INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference,
                                                  request_id, number_hash, created_at)
                SELECT id, -1, credits, 'search', '', '', '', %s, %s, %s FROM debit
                RETURNING id, balance_after
                """,
                [now, self.token.pk, self.request_id, self.number_hash, now],
            )
            row = cursor.fetchone()
        return None if row is None else (row[0], row[1])

    def _take_sqlite(self) -> tuple[int, int] | None:
        # SQLite has no writing CTE: two statements, in a transaction of their own or in the caller's.
        now = connection.ops.adapt_datetimefield_value(timezone.now())
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            cursor.execute(
                """
                UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
                WHERE id = %s AND credits >= 1 RETURNING credits
                """,
                [now, self.token.pk],
            )
            rows = cursor.fetchall()
            if not rows:
                return None
            balance = rows[0][0]
            cursor.execute(
                """
                INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference,
                                                  request_id, number_hash, created_at)
                VALUES (%s, -1, %s, 'search', '', '', '', %s, %s, %s)
                """,
                [self.token.pk, balance, self.request_id, self.number_hash, now],
            )
            return cursor.lastrowid, balance


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A token whose balance is not what its ledger says."""

    token_id: int
    name: str
    credits: int
    ledger_sum: int


_AUDIT = """
SELECT t.id, t.name, t.credits, COALESCE(SUM(e.amount), 0)
FROM accounts_apitoken t LEFT JOIN accounts_creditentry e ON e.token_id = t.id
GROUP BY t.id, t.name, t.credits
HAVING t.credits < 0 OR t.credits <> COALESCE(SUM(e.amount), 0)
ORDER BY t.id
"""


def audit() -> list[Disagreement]:
    """Every token whose balance is negative or not the sum of its rows. One statement, so one moment: safe while
    serving."""
    with connection.cursor() as cursor:
        cursor.execute(_AUDIT)
        return [Disagreement(row[0], row[1], row[2], int(row[3])) for row in cursor.fetchall()]
