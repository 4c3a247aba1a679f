"""Races on real servers: the last credits, top-ups during searches, one idempotency key, and slow vendors."""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress

import pytest
import requests

from tests import upstream
from tests.api import NUMBER
from tests.mock_vendors import KEYS, PRESETS
from tests.reliability.operations import serve_hosts
from tests.service import Service
from tests.upstream import Upstream

pytestmark = [pytest.mark.once, pytest.mark.slow]

ServeProfile = Callable[..., list[Service]]
AT_ONCE = 30
NUMBERS = [f"4930231250{index:02}" for index in range(AT_ONCE)]
GOOD = upstream.says({**upstream.GOOD_A, **upstream.GOOD_B})
CALLS = 2  # per search: both slots call the same server, each with its own preset


@pytest.fixture(params=["sqlite, one instance", "postgresql, two instances"])
def serve_local(request: pytest.FixtureRequest, serve: Callable[..., Service]) -> ServeProfile:
    environment = {"DATABASE_URL": "", "REDIS_URL": ""}
    if request.param.startswith("postgresql"):
        environment["DATABASE_URL"] = request.getfixturevalue("postgres_url")
        environment["REDIS_URL"] = request.getfixturevalue("redis_url")
    count = 2 if environment["DATABASE_URL"] else 1
    return lambda **more: serve_hosts(serve, {**environment, **more}, count=count)


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    server = Upstream(GOOD).start()
    yield server
    server.stop()


@pytest.fixture
def serve_profile(serve_local: ServeProfile, vendor: Upstream) -> ServeProfile:
    urls = {"MOCK_A_BASE_URL": vendor.url, "MOCK_B_BASE_URL": vendor.url}
    bound = {"SOURCE_A": "mock_a", "SOURCE_B": "mock_b", "PRESET_DIR": str(PRESETS), **KEYS, **urls}
    return lambda **more: serve_local(**bound, **more)


class Account:
    def __init__(self, instances: list[Service], credits: int) -> None:
        self.service, self._instances = instances[0], itertools.cycle(instances)
        made = json.loads(self.service.manage("create_token", "retries", "--credits", str(credits), "--json"))
        self.id, self.key = made["id"], made["api_key"]
        self.pool = ThreadPoolExecutor(AT_ONCE + 1)

    def search(self, number: str = NUMBER, **headers: str) -> "Future[requests.Response]":
        return self.pool.submit(
            requests.post,
            f"{next(self._instances).url}/callerid/search",
            json={"api_key": self.key, "query": number},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            timeout=60,
        )

    def assert_spent(self, spent: int) -> None:
        count = f"CreditEntry.objects.filter(token={self.id}, kind='search').count()"
        script = f"from accounts.models import CreditEntry; print({count})"
        assert int(self.service.manage("shell", "--no-imports", "-c", script)) == spent
        assert json.loads(self.service.manage("audit_credits", "--json")) == {"disagreements": []}


def statuses(responses: list[requests.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


def test_500_searches_on_50_credits_charge_exactly_50(serve_local: ServeProfile) -> None:
    account = Account(serve_local(RATE_LIMIT="100000/m"), credits=50)
    responses = [search.result() for search in [account.search() for _ in range(500)]]
    assert statuses(responses) == {200: 50, 403: 450}
    assert sorted(r.json()["credits_remaining"] for r in responses if r.ok) == list(range(50))
    account.assert_spent(50)


def test_top_ups_and_searches_at_once_lose_nothing(serve_local: ServeProfile) -> None:
    account = Account(serve_local(RATE_LIMIT="100000/m"), credits=101)
    more = ("top_up", str(account.id), "10", "--note", "race", "--reference")
    top_ups = [account.pool.submit(account.service.manage, *more, f"inv-{index % 2}") for index in range(4)]
    responses = [search.result() for search in [account.search() for _ in range(100)]]
    for done in top_ups:
        done.result()
    assert statuses(responses) == {200: 100}
    assert account.search().result().json()["credits_remaining"] == 20
    account.assert_spent(101)


def test_one_key_with_30_numbers_is_one_lookup_and_one_charge(serve_profile: ServeProfile, vendor: Upstream) -> None:
    account, answer_now = Account(serve_profile(), credits=100), threading.Event()
    vendor.behave_as(upstream.held(answer_now, GOOD))
    searches = [account.search(number, Idempotency_Key="k") for number in NUMBERS]
    responses = []
    for done in as_completed(searches, timeout=60):
        responses.append(done.result())
        if len(responses) == AT_ONCE - 1:
            answer_now.set()  # the others were refused while this one was in progress
    assert [response.status_code for response in responses] == [400] * (AT_ONCE - 1) + [200]
    for refused in responses[:-1]:
        assert refused.json() == {"detail": "Idempotency-Key was used with another query"}
        assert "Server-Timing" not in refused.headers
    assert len(vendor.heads) == CALLS
    account.assert_spent(1)


def test_one_key_with_one_number_at_once_is_one_lookup(serve_profile: ServeProfile, vendor: Upstream) -> None:
    account = Account(serve_profile(), credits=1)
    vendor.behave_as(upstream.slow(0.5, GOOD))
    searches = [account.search(Idempotency_Key="k") for _ in range(AT_ONCE)]
    responses = [search.result() for search in searches]
    assert statuses(responses) == {200: AT_ONCE}
    assert len({response.content for response in responses}) == 1
    assert sum("Idempotent-Replayed" in response.headers for response in responses) == AT_ONCE - 1
    assert sum("Server-Timing" in response.headers for response in responses) == 1
    assert len(vendor.heads) == CALLS
    account.assert_spent(1)


def test_a_failed_search_lets_one_that_waits_search(serve_profile: ServeProfile, vendor: Upstream) -> None:
    account, fail_now = Account(serve_profile(), credits=10), threading.Event()
    both_asked = threading.Barrier(CALLS + 1)
    vendor.behave_as(upstream.held(fail_now, upstream.raw(b"", 500), both_asked))
    first = account.search(Idempotency_Key="k")
    both_asked.wait(60)
    second = account.search(Idempotency_Key="k")
    vendor.behave_as(GOOD)
    fail_now.set()
    assert (first.result().status_code, second.result().status_code) == (500, 200)
    assert "Idempotent-Replayed" not in second.result().headers
    account.assert_spent(1)


def test_the_claim_of_a_dead_process_is_taken_over(serve_profile: ServeProfile, vendor: Upstream) -> None:
    instances = serve_profile(SEARCH_DEADLINE_S="3")
    account, never, both_asked = Account(instances, credits=10), threading.Event(), threading.Barrier(CALLS + 1)
    vendor.behave_as(upstream.held(never, GOOD, both_asked))
    first = account.search(Idempotency_Key="k")
    both_asked.wait(60)
    account.service.kill()
    with suppress(requests.RequestException):
        pytest.fail(f"answered: {first.result().status_code}")
    account.assert_spent(0)
    never.set()
    vendor.behave_as(GOOD)
    account.service.start()
    response = account.search(Idempotency_Key="k").result()
    assert (response.status_code, response.json()["credits_remaining"]) == (200, 9)
    account.assert_spent(1)


def test_one_credit_buys_at_most_a_windows_uncharged_lookups(serve_profile: ServeProfile, vendor: Upstream) -> None:
    limit = 15
    account = Account(serve_profile(RATE_LIMIT=f"{limit}/m"), credits=1)
    all_asked = threading.Barrier(limit * CALLS)

    def answer_together(conversation: upstream.Conversation) -> bool:
        all_asked.wait(60)
        return GOOD(conversation)

    vendor.behave_as(answer_together)
    responses = [search.result() for search in [account.search(number) for number in NUMBERS]]
    assert statuses(responses) == {200: 1, 403: limit - 1, 429: AT_ONCE - limit}
    assert [response.status_code for response in responses if "Server-Timing" in response.headers] == [200]
    assert len(vendor.heads) == limit * CALLS
    assert account.search("493023125099").result().status_code in (403, 429)
    assert len(vendor.heads) == limit * CALLS
    account.assert_spent(1)
