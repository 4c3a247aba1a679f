"""The only code that changes a balance: each change is one guarded UPDATE and one ledger row, in one transaction."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Sum
from django.utils import timezone

from accounts import charge_recovery, idempotency, notices
from accounts.hashing import keyed_hash
from accounts.models import ApiToken, CreditDay, CreditEntry
from accounts.sql import one_row

MAX_AMOUNT = 10**9
MAX_BALANCE = 10**15


class NoCreditsLeft(Exception):
    """The token cannot pay for a search."""


class InvalidAmount(ValueError):
    """An amount that cannot be booked; the message says why."""


class ReferenceConflict(ValueError):
    """The reference was used for another booking of this token."""


class NotRefundable(ValueError):
    """Only a search is given back, and only once; the message says which it was."""


class TopUpRefused(ValueError):
    """A revoked token takes no top-up; the message says what to do instead."""


class AllowanceExceeded(ValueError):
    """More than SUPPORT_CREDITS_PER_DAY; the message says how many are left."""


def move(
    *,
    token: ApiToken,
    amount: int,
    kind: CreditEntry.Kind,
    actor: str,
    reason: str,
    reference: str = "",
    refunds: CreditEntry | None = None,
) -> CreditEntry:
    """Book `amount` (signed, whole) and its ledger row. Raises InvalidAmount when the balance would leave its range,
    and TopUpRefused for a top-up of a revoked token, also of one that is revoked at the same moment.

    In the same transaction: the day's sum of this kind, and a notice when the balance falls to the token's threshold.
    Rows are locked in this order, the token's and then the day's, so whoever books on several tokens does so in a
    transaction for each.
    """
    if not abs(amount) <= MAX_AMOUNT:
        raise InvalidAmount(f"At most {MAX_AMOUNT} credits at once.")
    with transaction.atomic():
        tokens = ApiToken.objects.filter(pk=token.pk)
        if kind == CreditEntry.Kind.TOP_UP:
            tokens = tokens.filter(revoked_at=None)
        moved = tokens.filter(credits__gte=-amount, credits__lte=MAX_BALANCE - amount).update(
            credits=F("credits") + amount
        )
        if not moved:
            if not tokens.exists():
                raise TopUpRefused("This token is revoked, so nobody could spend the credits. Issue a new token.")
            raise InvalidAmount(f"The balance must stay between 0 and {MAX_BALANCE}.")
        row = ApiToken.objects.only("credits", "contact", "low_balance_at").get(pk=token.pk)
        entry = CreditEntry.objects.create(
            token_id=token.pk,
            amount=amount,
            balance_after=row.credits,
            kind=kind,
            actor=actor[:150],
            reason=reason,
            reference=reference,
            refunds=refunds,
        )
        _add_to_day(entry)
        notices.write_if_crossed(row, amount)
        return entry


def _add_to_day(entry: CreditEntry) -> None:
    day: dict[str, Any] = {"day": entry.created_at.astimezone(UTC).date(), "kind": entry.kind}
    CreditDay.objects.get_or_create(**day)
    CreditDay.objects.filter(**day).update(amount=F("amount") + entry.amount)


def top_up(*, token: ApiToken, amount: int, actor: str, reason: str, reference: str = "") -> CreditEntry:
    """Add `amount` (1 or more) credits. The same `reference` again is the same top-up: its row is returned, unchanged.

    Raises InvalidAmount, ReferenceConflict when the reference stands for another amount or kind, and TopUpRefused for a
    revoked token. Adjustments and refunds of a revoked token are allowed: they correct what its ledger says.
    """
    if amount < 1:
        raise InvalidAmount("A top-up is 1 credit or more.")
    return _book(token, amount, CreditEntry.Kind.TOP_UP, actor, reason, reference)


def adjust(*, token: ApiToken, amount: int, actor: str, reason: str, reference: str = "") -> CreditEntry:
    """Correct the balance by `amount`, up or down, never below 0, of a revoked token too. References and errors as in
    `top_up`."""
    if amount == 0:
        raise InvalidAmount("An adjustment of 0 changes nothing.")
    return _book(token, amount, CreditEntry.Kind.ADJUSTMENT, actor, reason, reference)


def refund(*, entry: CreditEntry, actor: str, reason: str) -> CreditEntry:
    """Give back what a search cost, by a new row that names the search's; at most once.

    Raises NotRefundable, InvalidAmount, and ValueError for a reason that is empty or over 200 characters.
    """
    if entry.kind != CreditEntry.Kind.SEARCH:
        raise NotRefundable("Only a search is refunded: adjust the balance instead.")
    try:
        return move(
            token=entry.token,
            amount=-entry.amount,
            kind=CreditEntry.Kind.REFUND,
            actor=actor,
            reason=_reason(reason),
            refunds=entry,
        )
    except IntegrityError as error:
        if not CreditEntry.objects.filter(refunds=entry).exists():
            raise
        raise NotRefundable("This search was refunded before.") from error


def require_allowance(*, actor: str, amount: int) -> None:
    """`actor` gives tokens at most SUPPORT_CREDITS_PER_DAY in any 24 hours, refunds included. Raises AllowanceExceeded.

    Of two calls at once both see what was given before: whoever calls it locks the actor first.
    """
    since = timezone.now() - timedelta(days=1)
    given = CreditEntry.objects.exclude(kind=CreditEntry.Kind.SEARCH).filter(
        created_at__gte=since, actor=actor[:150], amount__gt=0
    )
    limit = settings.SUPPORT_CREDITS_PER_DAY
    left = limit - (given.aggregate(given=Sum("amount"))["given"] or 0)
    if amount > left:
        raise AllowanceExceeded(f"You may give {limit} credits in 24 hours, and {max(left, 0)} of them are left.")


def _reason(text: str) -> str:
    text = text.strip()
    if not 1 <= len(text) <= 200:
        raise ValueError("A reason of 1 to 200 characters is needed.")
    return text


def _book(token: ApiToken, amount: int, kind: CreditEntry.Kind, actor: str, reason: str, reference: str) -> CreditEntry:
    reason, reference = _reason(reason), reference.strip()
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
    claim: idempotency.Claim | None = None,
    cost: int = 1,
    deadline: float | None = None,
) -> Charge:
    """Take `cost` credits (1, or 0 for an answer given away) for `answer`, all or nothing.

    With a claim, in one transaction: debit, ledger row, remembered answer. Where another request has taken the claim
    over, that one's body is returned and nothing is paid. Where the connection breaks before the reply, the ledger is
    asked on a new one whether the debit stands, until `deadline` (time.monotonic; SEARCH_DEADLINE_S from now).

    Raises NoCreditsLeft (nothing is written then), idempotency.KeyReused, idempotency.StillInFlight, and django.db's
    errors: nothing was charged, unless the log says that the outcome is unknown.
    """
    number_hash = keyed_hash("number", number)
    debit = Debit(token=token, request_id=request_id, number_hash=number_hash, cost=cost, at=timezone.now())
    session = charge_recovery.Session.current() if cost else None
    try:
        return _take_and_remember(debit, answer, claim) if claim else Charge(_body(answer, debit.take()[1]))
    except (OperationalError, InterfaceError):
        if session is None or not session.lost:
            raise
        balance = session.balance_after(
            token_id=token.pk,
            request_id=request_id,
            number_hash=number_hash,
            created_at=debit.at,
            deadline=time.monotonic() + settings.SEARCH_DEADLINE_S if deadline is None else deadline,
        )
        if balance is None:
            raise
        return Charge(_body(answer, balance))


def _body(answer: dict[str, Any], balance: int) -> dict[str, Any]:
    return {**answer, "credits_remaining": balance}


def _take_and_remember(debit: "Debit", answer: dict[str, Any], claim: idempotency.Claim) -> Charge:
    while True:
        try:
            with transaction.atomic():
                if claim.entry_id is None:
                    entry_id, balance = debit.take()
                else:  # paid for before, and forgotten
                    entry_id = claim.entry_id
                    balance = CreditEntry.objects.values_list("balance_after", flat=True).get(pk=entry_id)
                body = _body(answer, balance)
                if idempotency.finish(claim=claim, entry_id=entry_id, body=body):
                    return Charge(body, replayed=claim.entry_id is not None)
                transaction.set_rollback(True)
        except NoCreditsLeft:
            if idempotency.release(claim):
                raise
        # The claim had expired, and another request has it: its answer counts, or, where it failed, this one's.
        theirs = idempotency.begin(token=claim.token, key=claim.key, number=claim.number, can_pay=True)
        if isinstance(theirs, idempotency.Replay):
            return Charge(theirs.body, replayed=True)
        claim = cast(idempotency.Claim, theirs)


@dataclass(frozen=True, slots=True)
class Debit:
    """One search's charge. The statements stand here alone; tests hold them against their ORM form."""

    token: ApiToken
    request_id: str
    number_hash: bytes
    cost: int
    at: datetime

    def take(self) -> tuple[int | None, int]:
        """The ledger row's id (None when it cost nothing) and the balance after. Raises NoCreditsLeft."""
        if self.cost == 0:
            return None, ApiToken.objects.values_list("credits", flat=True).get(pk=self.token.pk)
        taken = self._take_postgresql() if connection.vendor == "postgresql" else self._take_sqlite()
        if taken is None:
            raise NoCreditsLeft
        return taken

    def _take_postgresql(self) -> tuple[int, int] | None:
        now = self.at
        row = one_row(
            """
            WITH debit AS (
                UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
                WHERE id = %s AND credits >= 1 RETURNING id, credits, low_balance_at, contact
            ), notice AS (
                INSERT INTO accounts_notice (token_id, threshold, balance, created_at, due_at, attempts, outcome)
                SELECT id, low_balance_at, credits, %s, %s, 0, '' FROM debit
                WHERE credits = low_balance_at AND contact <> '' AND %s
            )
            INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference,
                                              request_id, number_hash, created_at)
            SELECT id, -1, credits, 'search', '', '', '', %s, %s, %s FROM debit
            RETURNING id, balance_after
            """,
            [
                *(now, self.token.pk),
                *(now, now, settings.LOW_BALANCE_NOTICES),
                *(self.request_id, self.number_hash, now),
            ],
        )
        return None if row is None else (row[0], row[1])

    def _take_sqlite(self) -> tuple[int, int] | None:
        # SQLite has no writing CTE: statements of their own, in one transaction or in the caller's.
        now = connection.ops.adapt_datetimefield_value(self.at)
        with transaction.atomic(savepoint=False), connection.cursor() as cursor:
            cursor.execute(
                """
                UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = %s
                WHERE id = %s AND credits >= 1 RETURNING credits, low_balance_at, contact
                """,
                [now, self.token.pk],
            )
            rows = cursor.fetchall()
            if not rows:
                return None
            balance, threshold, contact = rows[0]
            if balance == threshold and contact and settings.LOW_BALANCE_NOTICES:
                cursor.execute(
                    """
                    INSERT INTO accounts_notice (token_id, threshold, balance, created_at, due_at, attempts, outcome)
                    VALUES (%s, %s, %s, %s, %s, 0, '')
                    """,
                    [self.token.pk, threshold, balance, now, now],
                )
            cursor.execute(
                """
                INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference,
                                                  request_id, number_hash, created_at)
                VALUES (%s, -1, %s, 'search', '', '', '', %s, %s, %s)
                """,
                [self.token.pk, balance, self.request_id, self.number_hash, now],
            )
            return cursor.lastrowid, balance
