"""A charge whose PostgreSQL connection breaks before the reply: response and ledger agree."""

import json
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.postgres_proxy import Moment, PostgresProxy, postgres_proxy
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

INTERNAL = {"detail": "Internal server error"}


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[PostgresProxy]:
    with postgres_proxy(postgres_url) as proxy:
        yield proxy


class Account:
    """A token with 100 credits and one search, on a service that reaches PostgreSQL through the proxy."""

    def __init__(self, service: Service, postgres_url: str) -> None:
        self.service, self._postgres_url = service, postgres_url
        self.key = service.manage("create_token", "lost", "--credits", "100", "--quiet").strip()
        assert self.search().status_code == 200

    def search(self, **headers: str) -> requests.Response:
        return requests.post(
            f"{self.service.url}/callerid/search",
            json={"api_key": self.key, "query": NUMBER},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            timeout=60,
        )

    def spent(self) -> int:
        """The number of charged searches, the first included. Balance and ledger agree."""
        assert json.loads(self.service.manage("audit_credits", "--json")) == {"disagreements": []}
        with psycopg.connect(self._postgres_url) as database:
            row = database.execute("SELECT COUNT(*) FROM accounts_creditentry WHERE kind = 'search'").fetchone()
            assert row
            return int(row[0])


@pytest.fixture
def account(serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy) -> Account:
    service = serve(DATABASE_URL=proxy.url, REDIS_URL="", RATE_LIMIT="1000/m", SEARCH_DEADLINE_S="10")
    return Account(service, postgres_url)


@pytest.fixture
def hasty_account(serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy) -> Account:
    """Its searches have a deadline of 1 s, and their statements a timeout of 0.5 s."""
    # Without the request log, whose thread would leave the pool another connection that still works.
    hasty = {"SEARCH_DEADLINE_S": "1", "DB_STATEMENT_TIMEOUT_MS": "500", "REQUEST_LOG_DAYS": "0"}
    return Account(serve(DATABASE_URL=proxy.url, REDIS_URL="", RATE_LIMIT="1000/m", **hasty), postgres_url)


@pytest.mark.parametrize("connections", ["2, shared by 4 threads", "8, of which each thread keeps one"])
def test_a_committed_debit_is_200_although_its_reply_is_lost(
    serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy, connections: str
) -> None:
    service = serve(DATABASE_URL=proxy.url, REDIS_URL="", DB_POOL_SIZE=connections[0], SEARCH_DEADLINE_S="10")
    account = Account(service, postgres_url)
    proxy.break_next("after")
    response = account.search()
    assert proxy.broken.is_set()
    assert (response.status_code, response.json()["credits_remaining"]) == (200, 98)
    assert account.search().json()["credits_remaining"] == 97
    assert account.spent() == 3


def test_a_debit_that_never_arrived_is_500_and_costs_nothing(account: Account, proxy: PostgresProxy) -> None:
    moments: tuple[Moment, ...] = ("before", "held")
    for moment in moments:
        proxy.break_next(moment)
        response = account.search()
        assert proxy.broken.is_set()
        assert (response.status_code, response.json()) == (500, INTERNAL)
        assert "Server-Timing" not in response.headers
    proxy.deliver()  # too late: its session was terminated
    assert account.spent() == 1
    assert account.search().json()["credits_remaining"] == 98


def test_a_completed_commit_is_200_and_is_replayed(account: Account, proxy: PostgresProxy) -> None:
    proxy.break_next("after", commit=True)
    first = account.search(Idempotency_Key="k")
    assert proxy.broken.is_set()
    assert (first.status_code, first.json()["credits_remaining"]) == (200, 98)
    assert "Idempotent-Replayed" not in first.headers
    again = account.search(Idempotency_Key="k")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert account.spent() == 2


def test_a_commit_that_never_arrived_is_500_and_may_be_retried(account: Account, proxy: PostgresProxy) -> None:
    moments: tuple[Moment, ...] = ("before", "held")
    for moment in moments:
        proxy.break_next(moment, commit=True)
        response = account.search(Idempotency_Key="k")
        assert proxy.broken.is_set()
        assert (response.status_code, response.json()) == (500, INTERNAL)
    proxy.deliver()
    assert account.spent() == 1
    assert account.search(Idempotency_Key="k").json()["credits_remaining"] == 98
    assert account.spent() == 2


def test_another_search_with_the_same_request_id_does_not_count(account: Account, proxy: PostgresProxy) -> None:
    assert account.search(X_Request_ID="call-42").status_code == 200
    proxy.break_next("before")
    assert account.search(X_Request_ID="call-42").status_code == 500
    assert account.spent() == 2


def test_an_unreachable_database_leaves_the_outcome_unknown(hasty_account: Account, proxy: PostgresProxy) -> None:
    def lose(**headers: str) -> None:
        proxy.break_next("after", commit=bool(headers), then_refuse=True)
        response = hasty_account.search(**headers)
        proxy.refuses = False
        assert (response.status_code, response.json()) == (500, INTERNAL)

    def search_until_connected(**headers: str) -> requests.Response:
        """The pool connects again in the background; until then searches are refused and cost nothing."""
        deadline = time.monotonic() + 60
        while (response := hasty_account.search(**headers)).status_code != 200:
            assert time.monotonic() < deadline
        return response

    lose()
    assert hasty_account.service.log().count("connection lost, outcome unknown") == 1
    assert search_until_connected().json()["credits_remaining"] == 97  # charged twice
    lose(Idempotency_Key="k")
    assert hasty_account.service.log().count("connection lost, outcome unknown") == 2
    again = search_until_connected(Idempotency_Key="k")
    assert (again.json()["credits_remaining"], again.headers["Idempotent-Replayed"]) == (96, "true")
    assert hasty_account.spent() == 4


def test_a_debit_that_waits_for_a_lock_is_not_made_after_a_500(
    hasty_account: Account, proxy: PostgresProxy, postgres_url: str
) -> None:
    moments: tuple[Moment, ...] = ("begun", "held")
    for moment in moments:
        with psycopg.connect(postgres_url) as admin:
            admin.execute("SELECT 1 FROM accounts_apitoken FOR UPDATE")
            proxy.break_next(moment)
            assert hasty_account.search().status_code == 500
            assert proxy.broken.is_set()
            if moment == "held":
                proxy.deliver()
            admin.rollback()
        assert hasty_account.spent() == 1
