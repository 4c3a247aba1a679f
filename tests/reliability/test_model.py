"""Searches, retries, top-ups, refunds, transfers, rotations, revocations, erasures and imports at once, from several
processes: each answer and, in the end, each ledger are those of a model."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
import requests

from tests.reliability import LONG
from tests.reliability.operations import Operator, serve_hosts
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

TOKENS, OPERATIONS, CLIENTS = (200, 20_000, 8) if LONG else (40, 1_200, 4)
#: Numbers that are erased and imported meanwhile, and numbers of searches with an Idempotency-Key.
CHANGING = [f"1212555{number:04}" for number in range(100, 150)]
STABLE = [f"1212555{number:04}" for number in range(150, 200)]


class Account:
    """A token, the model of its ledger, and the operations on it. Each raises AssertionError where an answer is not the
    model's."""

    def __init__(self, name: str, urls: list[str], operator: Operator, chance: random.Random) -> None:
        self._urls, self._operator, self._chance = urls, operator, chance
        self._session = requests.Session()
        self._ids: Iterator[str] = (f"{name}-{number}" for number in count())
        amount = chance.randrange(1, 40)
        issued = operator("issue", name, amount, name.partition("-")[0])
        self.id, self._key = issued["id"], issued["key"]
        self.ledger: list[list[Any]] = [["issue", amount, amount]]
        self._revoked = False
        #: The tokens of the same customer, this one included.
        self.siblings: list[Account] = []
        self._charged: list[str] = []
        self._refunded: set[str] = set()
        self._answers: list[tuple[str, str, bytes]] = []

    @property
    def balance(self) -> int:
        return int(self.ledger[-1][2])

    def search(self) -> None:
        response = self._post(self._chance.choice(CHANGING))
        self._check_new(response)

    def search_with_key(self) -> None:
        key, number = next(self._ids), self._chance.choice(STABLE)
        response = self._post(number, key)
        self._check_new(response)
        if response.status_code == 200:
            self._answers.append((key, number, response.content))

    def repeat(self) -> None:
        if not self._answers:
            return
        key, number, content = self._chance.choice(self._answers)
        response = self._post(number, key)
        if self._revoked:
            assert response.status_code == 401
        else:
            assert (response.status_code, response.content) == (200, content)
            assert response.headers["Idempotent-Replayed"] == "true"

    def reuse_key(self) -> None:
        if self._answers:
            response = self._post(self._chance.choice(CHANGING), self._answers[-1][0])
            assert response.status_code == (401 if self._revoked else 400)

    def top_up(self) -> None:
        reference, amount = next(self._ids), self._chance.randrange(1, 20)
        entry = self._operator("top_up", self.id, amount, reference)
        if self._revoked:
            assert entry == {"refused": "ChangeRefused"}
        else:
            self._record("top-up", amount)
            assert self._operator("top_up", self.id, amount, reference) == entry

    def adjust(self) -> None:
        amount = self._chance.randrange(-10, 0)
        changed = self._operator("adjust", self.id, amount)
        if self.balance + amount < 0:
            assert changed == {"refused": "ChangeRefused"}
        else:
            self._record("adjustment", amount)

    def transfer(self) -> None:
        other, amount = self._chance.choice(self.siblings), self._chance.randrange(1, 10)
        moved = self._operator("transfer", self.id, other.id, amount)
        if other is self or other._revoked or self.balance < amount:
            assert moved == {"refused": "ChangeRefused"}
        else:
            self._record("transfer", -amount)
            other._record("transfer", amount)

    def refund(self) -> None:
        if not self._charged:
            return
        request_id = self._chance.choice(self._charged)
        refunded = self._operator("refund", self.id, request_id)
        if request_id in self._refunded:
            assert refunded == {"refused": "NotRefundable"}
        else:
            self._refunded.add(request_id)
            self._record("refund", 1)

    def rotate(self) -> None:
        rotated = self._operator("rotate", self.id, 0)
        if self._revoked:
            assert rotated == {"refused": "TokenRevoked"}
            return
        former, self._key = self._key, rotated
        assert self._post(CHANGING[0], api_key=former).status_code == 401

    def revoke(self) -> None:
        assert self._operator("revoke", self.id) is not self._revoked
        self._revoked = True

    def forget(self) -> None:
        self._operator("forget", self._chance.choice(CHANGING))

    def import_contacts(self) -> None:
        self._operator("import_contacts", [[number, "Example", "Springfield"] for number in CHANGING])

    def _check_new(self, response: requests.Response) -> None:
        if self._revoked:
            assert response.status_code == 401
        elif self.balance < 1:
            assert response.status_code == 403
        else:
            assert response.status_code == 200, response.text
            self._record("search", -1)
            self._charged.append(response.headers["X-Request-ID"])
            assert response.json()["credits_remaining"] == self.balance

    def _post(self, number: str, key: str | None = None, *, api_key: str = "") -> requests.Response:
        body = {"api_key": api_key or self._key, "query": number}
        headers = {"Idempotency-Key": key} if key else {}
        url = self._chance.choice(self._urls)
        return self._session.post(f"{url}/callerid/search", json=body, headers=headers, timeout=60)

    def _record(self, kind: str, amount: int) -> None:
        self.ledger.append([kind, amount, self.balance + amount])


SHARES = {
    Account.search: 80,
    Account.search_with_key: 8,
    Account.repeat: 6,
    Account.top_up: 4,
    Account.refund: 3,
    Account.transfer: 3,
    Account.reuse_key: 1,
    Account.adjust: 1,
    Account.rotate: 1,
    Account.forget: 1,
    Account.revoke: 0.2,
    Account.import_contacts: 0.2,
}


def test_answers_and_ledgers_are_those_of_the_model(
    serve: Callable[..., Service], postgres_url: str, redis_url: str
) -> None:
    hosts = serve_hosts(serve, {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "RATE_LIMIT": "1000000/m"})
    urls = [host.url for host in hosts]

    def run_client(index: int) -> list[Account]:
        chance = random.Random(index)
        accounts = [
            Account(f"{index}-{number}", urls, operators[index % 2], chance) for number in range(TOKENS // CLIENTS)
        ]
        for account in accounts:
            account.siblings = accounts
        for operation in chance.choices(list(SHARES), list(SHARES.values()), k=OPERATIONS // CLIENTS):
            operation(chance.choice(accounts))
        return accounts

    with Operator(hosts[0]) as one, Operator(hosts[1]) as other, ThreadPoolExecutor(CLIENTS) as clients:
        operators = (one, other)
        accounts = [account for of_client in clients.map(run_client, range(CLIENTS)) for account in of_client]
        assert sum(len(account.ledger) for account in accounts) > OPERATIONS / 2
        for account in accounts:
            assert one("ledger", account.id) == account.ledger
            assert one("balance", account.id) == account.balance
        assert one("disagreements") == 0
