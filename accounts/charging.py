"""Charging a search: one credit for a new answer, none for an answer that was paid for or is free."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from django.db import Error
from django.utils import timezone

from accounts import credits, debit, idempotency, unknown_charges
from accounts.idempotency import Claim, Replay
from accounts.models import ActiveToken, ApiToken
from core import db
from core.database_errors import ConnectionLost, describe
from core.hashing import keyed_hash

log = logging.getLogger(__name__)

#: How long a charge waits before it asks again what became of its lost debit.
RETRY_INTERVAL_S = 0.05
#: `credits_remaining` in every answer to a test token, which has no balance.
TEST_BALANCE = 1_000
#: Not of a token without credits, which cannot pay whatever its epoch is.
_FIND_EPOCH = "SELECT charge_epoch FROM accounts_apitoken WHERE id = %s AND credits >= 1"
_FIND_BALANCE = "SELECT credits FROM accounts_apitoken WHERE id = %s"


class NoCreditsLeft(Exception):
    """The token cannot pay for a search."""


@dataclass(frozen=True, slots=True)
class ChargedAnswer:
    """`body`: the whole answer, with `credits_remaining`. `replayed`: an earlier request was charged for it, or got it
    without charge.

    `entry_id`: of the ledger entry that this request has written; None if it has written none. `number_hash`: the
    number's keyed hash in that entry.
    """

    body: dict[str, Any]
    replayed: bool = False
    entry_id: int | None = None
    number_hash: bytes | None = None


async def charge(
    *,
    token: ActiveToken | ApiToken,
    request_id: str,
    number: str,
    answer: dict[str, Any],
    claim: Claim | None = None,
) -> ChargedAnswer:
    """Take one credit for `answer`: balance, ledger entry and stored answer change in one statement, or not at all.

    Where another request has taken the claim over, its answer is returned and nothing is charged. Where the connection
    breaks before the reply, the ledger is read on a new one, until the search has to end (core.db.deadline), to see
    whether the charge was committed.

    Raises NoCreditsLeft, idempotency.KeyReused, idempotency.StillInFlight and django.db's errors; nothing was charged
    then, unless the log says that the outcome is unknown: without a claim it is settled later (unknown_charges).
    """
    number_hash = keyed_hash("number", number)

    async def pay(claim: Claim | None) -> ChargedAnswer | None:
        epoch = token.charge_epoch
        while True:
            attempt = debit.Debit(token.pk, epoch, request_id, number_hash, timezone.now(), answer, claim)
            outcome = await _execute(attempt)
            if outcome.entry_id is not None:
                credits.CREDITS.inc("search")
                body = {**answer, "credits_remaining": outcome.balance}
                return ChargedAnswer(body, entry_id=outcome.entry_id, number_hash=number_hash)
            if not outcome.held:
                return None
            current = await db.afetch_one(_FIND_EPOCH, [token.pk])
            if current is None or current[0] == epoch:
                if claim is None or await idempotency.release(claim):
                    raise NoCreditsLeft
                return None
            epoch = current[0]

    return await _answer(answer, claim, pay)


async def answer_without_charge(
    *, token: ActiveToken | ApiToken, answer: dict[str, Any], claim: Claim | None = None
) -> ChargedAnswer:
    """`answer` for no credit and without a ledger entry, stored under the claim as in `charge`. Same errors.

    `credits_remaining` is TEST_BALANCE for a test token.
    """

    async def give(claim: Claim | None) -> ChargedAnswer | None:
        balance = TEST_BALANCE if token.is_test else (await db.afetch_one(_FIND_BALANCE, [token.pk]))[0]
        body = {**answer, "credits_remaining": balance}
        return ChargedAnswer(body) if claim is None or await debit.answer_free(claim, body) else None

    return await _answer(answer, claim, give)


async def _answer(
    answer: dict[str, Any], claim: Claim | None, pay: Callable[[Claim | None], Awaitable[ChargedAnswer | None]]
) -> ChargedAnswer:
    """What `pay` returns; `answer` itself where an earlier request has paid for the search; or the stored answer of
    another request. `pay` returns None when another request has taken the claim over."""
    while True:
        if claim is not None and claim.entry_id is not None:
            if (balance := await debit.answer_paid(claim, answer)) is not None:
                return ChargedAnswer({**answer, "credits_remaining": balance}, replayed=True)
        elif (paid := await pay(claim)) is not None:
            return paid
        # The claim expired and another request took it over: use its answer or, if that request failed, try again.
        taken = cast(Claim, claim)
        begun = await idempotency.begin(token=taken.token, key=taken.key, number=taken.number, can_pay=True)
        if isinstance(begun, Replay):
            return ChargedAnswer(begun.body, replayed=True)
        claim = begun


async def _execute(attempt: debit.Debit) -> debit.DebitResult:
    """`attempt`'s outcome, found in the ledger if its reply is lost. Raises ConnectionLost if it was not committed, or
    that cannot be found out in time, and core.db's other errors."""
    try:
        try:
            return await attempt.execute()
        except ConnectionLost:
            outcome = await _find(attempt)
            if outcome is None or outcome.entry_id is None:
                raise
            return outcome
    except asyncio.CancelledError:  # the process stops without an answer to this search
        _remember(attempt)
        raise


async def _find(attempt: debit.Debit) -> debit.DebitResult | None:
    """None if it is unknown when the search has to end."""
    deadline = db.deadline.get()
    while True:
        try:
            return await attempt.find()
        except Error as error:
            if deadline is None or time.monotonic() + RETRY_INTERVAL_S >= deadline:
                _remember(attempt)
                return None
            log.warning("charge: connection lost, the ledger cannot be read yet (%s)", describe(error))
            await asyncio.sleep(RETRY_INTERVAL_S)


def _remember(attempt: debit.Debit) -> None:
    log.error("charge: connection lost, outcome unknown (token=%d)", attempt.token_id)
    if attempt.claim is None:  # with a key, a retry gets the answer that the debit stored
        lost = unknown_charges.LostDebit(attempt.token_id, attempt.created_at, attempt.request_id)
        unknown_charges.settler.add(lost)
