"""Balances equal their ledgers after any sequence of operations, and after transfers in both directions beside
searches, top-ups, refunds and revocations."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from threading import Barrier
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.models import Sum
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts import audit, charging, credits, tokens
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.account_fixtures import tokens_of_one_customer
from tests.accounts.admin.pages import NUMBER

THREADS = 50
TOKENS = 3


def assert_consistent(owned: list[ApiToken], initial: int) -> None:
    """Nothing was lost or created but by the ledger's other entries."""
    assert (audit.audit(), audit.unpaired_transfers()) == ([], [])
    by_kind = dict(CreditEntry.objects.values_list("kind").annotate(Sum("amount")).order_by())
    assert by_kind["issue"] == initial
    assert by_kind.get("transfer", 0) == 0
    assert ApiToken.objects.aggregate(total=Sum("credits"))["total"] == sum(by_kind.values())
    for token in ApiToken.objects.filter(pk__in=[token.pk for token in owned]):
        assert token.credits == token.entries.aggregate(total=Sum("amount"))["total"]


def charge(token: ApiToken, name: str) -> None:
    awaited.charge(token=token, request_id=name, number=NUMBER, answer={})


# --- Any sequence ----------------------------------------------------------------------------------------------------


class Model:
    """The balances as they should be, and the operations, each of which does what the model says or is refused."""

    def __init__(self) -> None:
        self.tokens = tokens_of_one_customer(*[10] * TOKENS)
        self.balances, self.revoked = [10] * TOKENS, [False] * TOKENS

    def search(self, index: int, other: int, amount: int) -> None:
        if self.balances[index] < 1:
            with pytest.raises(charging.NoCreditsLeft):
                charge(self.tokens[index], "r")
        else:
            charge(self.tokens[index], "r")
            self.balances[index] -= 1

    def top_up(self, index: int, other: int, amount: int) -> None:
        change: dict[str, Any] = {"token": self.tokens[index], "amount": amount, "actor": "op", "reason": "paid"}
        if self.revoked[index]:
            with pytest.raises(credits.ChangeRefused, match="revoked"):
                credits.top_up(**change)
        else:
            credits.top_up(**change)
            self.balances[index] += amount

    def refund(self, index: int, other: int, amount: int) -> None:
        entry = self.tokens[index].entries.filter(kind="search", refunded_by=None).first()
        if entry is not None:
            credits.refund(entry=entry, actor="op", reason="wrong")
            self.balances[index] += 1

    def transfer(self, index: int, other: int, amount: int) -> None:
        change: dict[str, Any] = {"amount": amount, "actor": "op", "reason": "moved"}
        change |= {"from_token": self.tokens[index], "to_token": self.tokens[other]}
        if index == other or self.revoked[other] or self.balances[index] < amount:
            with pytest.raises(credits.ChangeRefused):
                credits.transfer(**change)
        else:
            credits.transfer(**change)
            self._move(index, other, amount)

    def revoke(self, index: int, other: int, amount: int) -> None:
        assert tokens.revoke(token=self.tokens[index]) is not self.revoked[index]
        self.revoked[index] = True

    def revoke_and_move(self, index: int, other: int, amount: int) -> None:
        change: dict[str, Any] = {"token": self.tokens[index], "to_token": self.tokens[other]}
        has_credits = self.balances[index] > 0
        if self.revoked[index] or (has_credits and (index == other or self.revoked[other])):
            with pytest.raises((tokens.TokenRevoked, credits.ChangeRefused)):
                tokens.revoke_and_move(**change, actor="op", reason="closed")
        else:
            tokens.revoke_and_move(**change, actor="op", reason="closed")
            self.revoked[index] = True
            self._move(index, other, self.balances[index])

    def _move(self, index: int, other: int, amount: int) -> None:
        self.balances[index] -= amount
        self.balances[other] += amount


OPERATIONS = [Model.search, Model.top_up, Model.refund, Model.transfer, Model.revoke, Model.revoke_and_move]
INDEXES = st.integers(0, TOKENS - 1)


@pytest.mark.django_db
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), INDEXES, INDEXES, st.integers(1, 25)), max_size=25))
def test_every_balance_equals_its_ledger_and_the_model(
    db: None, operations: list[tuple[Callable[..., None], int, int, int]]
) -> None:
    with transaction.atomic():
        model = Model()
        for operation, index, other, amount in operations:
            operation(model, index, other, amount)
        rows = ApiToken.objects.in_bulk([token.pk for token in model.tokens])
        assert [rows[token.pk].credits for token in model.tokens] == model.balances
        assert [rows[token.pk].revoked_at is not None for token in model.tokens] == model.revoked
        assert_consistent(model.tokens, 10 * TOKENS)
        transaction.set_rollback(True)


# --- At once ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_50_threads_neither_lose_credits_nor_deadlock() -> None:
    """Transfers around the ring of tokens in both directions lock each pair in both orders."""
    owned = tokens_of_one_customer(40, 40, 40)
    barrier, done = Barrier(THREADS), Counter[str]()

    def move(n: int, step: int) -> None:
        source, target = owned[n % 3], owned[(n + step) % 3]
        credits.transfer(from_token=source, to_token=target, amount=1 + n % 7, actor="op", reason="moved")

    def refund(n: int) -> None:
        charge(owned[n % 3], f"refunded {n}")
        entry = CreditEntry.objects.get(request_id=f"refunded {n}")
        credits.refund(entry=entry, actor="op", reason="wrong")

    def revoke(n: int) -> None:
        if n == 0:
            tokens.revoke_and_move(token=owned[2], to_token=owned[0], reason="closed", actor="op")

    operations: list[tuple[str, Callable[[int], None]]] = [
        ("up", lambda n: move(n, 1)),
        ("down", lambda n: move(n, 2)),
        ("search", lambda n: charge(owned[n % 3], f"search {n}")),
        ("top-up", lambda n: top_up(owned[n % 3])),
        ("refund", refund),
    ]

    def run(n: int, name: str, operation: Callable[[int], None]) -> None:
        try:
            barrier.wait(60)
            for repeat in range(4):
                try:
                    operation(n + THREADS * repeat)
                    done[name] += 1
                except (credits.ChangeRefused, charging.NoCreditsLeft):
                    done[f"{name} refused"] += 1
        finally:
            connections.close_all()

    work = [*zip(range(THREADS - 1), cycle(operations), strict=False), (0, ("revoke", revoke))]
    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(run, n, *what) for n, what in work]
        for each in running:
            each.result(120)  # raises what is no refusal, such as a deadlock
    assert min(done[name] for name, _ in operations) > 0
    assert ApiToken.objects.get(pk=owned[2].pk).state == "revoked"
    assert_consistent(owned, 120)


def top_up(token: ApiToken) -> None:
    credits.top_up(token=token, amount=3, actor="op", reason="paid")
