"""A charge whose PostgreSQL connection breaks before the reply: response and ledger agree."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.load import wait_for
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
        """The number of credits that searches cost, the first included. Balance and ledger agree."""
        assert json.loads(self.service.manage("audit_credits", "--json"))["disagreements"] == []
        return self._fetch("SELECT -SUM(amount) FROM accounts_creditentry WHERE kind IN ('search', 'refund')")

    def refunds(self) -> int:
        return self._fetch("SELECT COUNT(*) FROM accounts_creditentry WHERE kind = 'refund'")

    def wait_until_settled(self, outcome: str, count: int = 1) -> None:
        """Until so many unknown charges have the outcome, and none is unknown."""
        query = "SELECT COUNT(*) FROM accounts_unknowncharge WHERE outcome "
        wait_for(lambda: (self._fetch(f"{query} = '{outcome}'"), self._fetch(f"{query} = 'unknown'")) == (count, 0))

    def _fetch(self, query: str) -> int:
        with psycopg.connect(self._postgres_url) as database:
            row = database.execute(query).fetchone()
            assert row
            return int(row[0])


@pytest.fixture
def account(serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy) -> Account:
    service = serve(DATABASE_URL=proxy.url, REDIS_URL="", RATE_LIMIT="1000/m", SEARCH_DEADLINE_S="10")
    return Account(service, postgres_url)


@pytest.fixture
def hasty_account(serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy) -> Account:
    """Its searches have a deadline of 1 s, and their statements a timeout of 0.5 s."""
    hasty = {"SEARCH_DEADLINE_S": "1", "DB_STATEMENT_TIMEOUT_MS": "500"}
    return Account(serve(DATABASE_URL=proxy.url, REDIS_URL="", RATE_LIMIT="1000/m", **hasty), postgres_url)


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "k"}])
def test_a_committed_debit_is_200_although_its_reply_is_lost(
    account: Account, proxy: PostgresProxy, headers: dict[str, str]
) -> None:
    proxy.break_next("after")
    response = account.search(**headers)
    assert proxy.broken.is_set()
    assert (response.status_code, response.json()["credits_remaining"]) == (200, 98)
    assert "Idempotent-Replayed" not in response.headers
    again = account.search(**headers)
    assert again.headers.get("Idempotent-Replayed") == ("true" if headers else None)
    assert again.json()["credits_remaining"] == (98 if headers else 97)
    assert account.spent() == (2 if headers else 3)


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "k"}])
def test_a_debit_that_never_arrived_is_500_and_costs_nothing(
    account: Account, proxy: PostgresProxy, headers: dict[str, str]
) -> None:
    moments: tuple[Moment, ...] = ("before", "held")
    for moment in moments:
        proxy.break_next(moment)
        response = account.search(**headers)
        assert proxy.broken.is_set()
        assert (response.status_code, response.json()) == (500, INTERNAL)
        assert "Server-Timing" not in response.headers
    proxy.deliver()  # too late: the token's epoch has ended
    assert account.spent() == 1
    assert account.search(**headers).json()["credits_remaining"] == 98
    assert account.spent() == 2


def test_another_search_with_the_same_request_id_does_not_count(account: Account, proxy: PostgresProxy) -> None:
    assert account.search(X_Request_ID="call-42").status_code == 200
    proxy.break_next("before")
    assert account.search(X_Request_ID="call-42").status_code == 500
    assert account.spent() == 2


def lose(account: Account, proxy: PostgresProxy, moment: Moment = "after", **headers: str) -> None:
    """A search whose charge loses its connection, while no other one reaches the database."""
    proxy.break_next(moment, then_refuse=True)
    response = account.search(**headers)
    assert proxy.broken.is_set()
    assert (response.status_code, response.json()) == (500, INTERNAL)


def test_an_unknown_charge_is_refunded_without_a_key(hasty_account: Account, proxy: PostgresProxy) -> None:
    lose(hasty_account, proxy)
    assert hasty_account.service.log().count("connection lost, outcome unknown") == 1
    proxy.refuses = False
    hasty_account.wait_until_settled("refunded")
    assert (hasty_account.spent(), hasty_account.refunds()) == (1, 1)
    assert hasty_account.search().json()["credits_remaining"] == 98
    assert (hasty_account.spent(), hasty_account.refunds()) == (2, 1)


def test_an_unknown_charge_is_replayed_with_its_key(hasty_account: Account, proxy: PostgresProxy) -> None:
    lose(hasty_account, proxy, Idempotency_Key="k")
    assert hasty_account.service.log().count("connection lost, outcome unknown") == 1
    proxy.refuses = False
    again = hasty_account.search(Idempotency_Key="k")
    assert (again.json()["credits_remaining"], again.headers["Idempotent-Replayed"]) == (98, "true")
    assert json.loads(hasty_account.service.manage("audit_credits", "--json")) == {"disagreements": []}
    assert (hasty_account.spent(), hasty_account.refunds()) == (2, 0)


@pytest.mark.parametrize("settled_by", ["start", "prune"])
def test_an_unknown_charge_outlives_its_process(hasty_account: Account, proxy: PostgresProxy, settled_by: str) -> None:
    lose(hasty_account, proxy)
    hasty_account.service.kill()
    proxy.refuses = False
    assert (hasty_account.spent(), hasty_account.refunds()) == (2, 0)
    if settled_by == "start":
        hasty_account.service.start()
    else:
        hasty_account.service.manage("prune")
    hasty_account.wait_until_settled("refunded")
    assert (hasty_account.spent(), hasty_account.refunds()) == (1, 1)


def test_a_charge_that_a_stop_ends_is_refunded(serve: Callable[..., Service], postgres_url: str) -> None:
    """The search takes longer than STOP_TIMEOUT_S, and its debit is made after that."""
    account = Account(serve(DATABASE_URL=postgres_url, REDIS_URL="", STOP_TIMEOUT_S="1"), postgres_url)
    with ThreadPoolExecutor(1) as caller, psycopg.connect(postgres_url) as admin:
        admin.execute("SELECT 1 FROM accounts_apitoken FOR UPDATE")
        response = caller.submit(account.search)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_for(lambda: admin.execute(waiting).fetchone() == (1,))
        account.service.stop()
        assert response.result().status_code == 500
        admin.rollback()
    assert len(account.service.unknown_charges()) == 1
    wait_for(lambda: account.spent() == 2)
    account.service.start()
    account.wait_until_settled("refunded")
    assert (account.spent(), account.refunds()) == (1, 1)


def test_a_debit_that_a_pooler_forwards_late_is_refused(
    serve: Callable[..., Service], postgres_url: str, proxy: PostgresProxy
) -> None:
    """Without prepared statements, as behind a pooler."""
    service = serve(DATABASE_URL=proxy.url, REDIS_URL="", DB_PREPARE="false", SEARCH_DEADLINE_S="10")
    account = Account(service, postgres_url)
    proxy.break_next("held")
    assert account.search().status_code == 500
    proxy.deliver()
    assert account.spent() == 1
    assert account.search().json()["credits_remaining"] == 98


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
