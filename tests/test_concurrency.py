"""Races on real servers: the last credits, the rate limit, one idempotency key, top-ups during searches."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from tests.api import NUMBER
from tests.reliability.operations import serve_hosts
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]
ServeProfile = Callable[..., list[Service]]
CLIENTS = 32


@pytest.fixture(params=["sqlite, one instance", "postgresql, two instances"])
def serve_profile(request: pytest.FixtureRequest, serve: Serve) -> ServeProfile:
    if request.param.startswith("sqlite"):
        return lambda **environment: [serve(**{"DATABASE_URL": "", "REDIS_URL": "", **environment})]
    servers = {
        "DATABASE_URL": request.getfixturevalue("postgres_url"),
        "REDIS_URL": request.getfixturevalue("redis_url"),
    }
    return lambda **environment: serve_hosts(serve, {**servers, **environment})


class Account:
    def __init__(self, instances: list[Service], credits: int) -> None:
        self.instances, self.service = instances, instances[0]
        made = json.loads(self.service.manage("create_token", "race", "--credits", str(credits), "--json"))
        self.id, self.key = made["id"], made["api_key"]

    def search_at_once(self, how_many: int, **headers: str) -> list[requests.Response]:
        sessions = [requests.Session() for _ in range(CLIENTS)]

        def search(index: int) -> requests.Response:
            return sessions[index % CLIENTS].post(
                f"{self.instances[index % len(self.instances)].url}/callerid/search",
                json={"api_key": self.key, "query": NUMBER},
                headers={name.replace("_", "-"): value for name, value in headers.items()},
                timeout=60,
            )

        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(search, range(how_many)))

    def balance(self) -> int:
        rows: list[dict[str, Any]] = json.loads(self.service.manage("list_tokens", "--json"))
        return int(next(row["credits"] for row in rows if row["id"] == self.id))

    def debits(self) -> int:
        count = f"CreditEntry.objects.filter(token={self.id}, kind='search').count()"
        script = f"from accounts.models import CreditEntry; print({count})"
        return int(self.service.manage("shell", "--no-imports", "-c", script))

    def assert_spent(self, spent: int, left: int) -> None:
        assert (self.debits(), self.balance()) == (spent, left)
        assert json.loads(self.service.manage("audit_credits", "--json")) == {"disagreements": []}


def statuses(responses: list[requests.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


def test_500_searches_on_50_credits_charge_exactly_50(serve_profile: ServeProfile) -> None:
    account = Account(serve_profile(RATE_LIMIT="100000/m"), credits=50)
    responses = account.search_at_once(500)
    assert statuses(responses) == {200: 50, 403: 450}
    assert sorted(r.json()["credits_remaining"] for r in responses if r.ok) == list(range(50))
    account.assert_spent(50, left=0)


def test_200_requests_at_the_limit_of_30_allow_exactly_30(serve_profile: ServeProfile) -> None:
    account = Account(serve_profile(), credits=1000)
    responses = account.search_at_once(200)
    assert statuses(responses) == {200: 30, 429: 170}
    account.assert_spent(30, left=970)


@pytest.mark.parametrize("credits", [1, 10])
def test_concurrent_requests_with_one_key_are_charged_once(serve_profile: ServeProfile, credits: int) -> None:
    account = Account(serve_profile(RATE_LIMIT="100000/m"), credits)
    responses = account.search_at_once(64, Idempotency_Key="k")
    assert statuses(responses) == {200: 64}
    assert len({response.content for response in responses}) == 1
    assert sum("Idempotent-Replayed" not in response.headers for response in responses) == 1
    account.assert_spent(1, left=credits - 1)


def test_top_ups_and_searches_at_once_lose_nothing(serve_profile: ServeProfile) -> None:
    account = Account(serve_profile(RATE_LIMIT="100000/m"), credits=100)

    def top_up(index: int) -> str:
        return account.service.manage(
            "top_up", str(account.id), "10", "--note", "race", "--reference", f"inv-{index % 2}"
        )

    with ThreadPoolExecutor(4) as pool:
        done = pool.map(top_up, range(4))
        responses = account.search_at_once(100)
        list(done)
    assert statuses(responses) == {200: 100}
    account.assert_spent(100, left=20)
