"""The primary of a synchronous pair of PostgreSQL servers fails under load, and the standby takes over."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.clusters import PostgresPair
from tests.load import Client, Load, create_tokens, wait_for
from tests.postgres_proxy import PostgresProxy, postgres_proxy
from tests.servers import required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
LIMITS = {
    "DB_STATEMENT_TIMEOUT_MS": "500",
    "SEARCH_DEADLINE_S": "1.5",
    "RATE_LIMIT": "100000/m",
    "REDIS_URL": "",
}
#: Far above any timeout, far below a wait without timeout.
BOUND_S = 8
RECOVERY_S = 10


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with required():
        pair = PostgresPair().start(synchronous=True)
    yield pair
    pair.close()


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_failover_loses_no_acknowledged_debit(serve: Serve, pair: PostgresPair, fault: str) -> None:
    service = serve(DATABASE_URL=pair.url, **LIMITS)
    with Load(service, create_tokens(service, 3), rate=30, keep_alive=12) as load:
        load.wait_for_successes(60, since=0, timeout_s=60)
        getattr(pair.primary, fault)()
        pair.standby.promote()
        promoted_at = time.monotonic()
        first_at = load.wait_for_successes(60, since=promoted_at, timeout_s=60)
    answers = load.answers
    print(f"{fault}: {load.statuses()}, first success {first_at - promoted_at:.1f} s after the promotion")  # noqa: T201
    assert first_at - promoted_at < RECOVERY_S
    assert max(answer.waited_s for answer in answers) < BOUND_S
    assert set(load.statuses()) <= {200, 500, 503}
    assert {each.idempotency_key for each in answers if each.status == 200} <= debits(pair).keys()
    with Client(service) as client:
        for answer in load.failures():
            client.retry(answer)
    # One debit for each search, whether its first answer was lost or not.
    assert debits(pair) == {answer.idempotency_key: 1 for answer in answers}
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def debits(pair: PostgresPair) -> dict[str, int]:
    """How many debits each search has on the standby, by request id."""
    with psycopg.connect(pair.standby.url) as database:
        rows = database.execute(
            "SELECT request_id, count(*) FROM accounts_creditentry WHERE kind = 'search' GROUP BY request_id"
        )
        return dict(rows.fetchall())


@pytest.fixture
def proxy(pair: PostgresPair) -> Iterator[PostgresProxy]:
    """In front of the primary."""
    with postgres_proxy(pair.primary.url) as proxy:
        yield proxy


def test_a_lost_reply_is_looked_up_on_the_new_primary(serve: Serve, pair: PostgresPair, proxy: PostgresProxy) -> None:
    url = pair.url.replace(f":{pair.primary.port},", f":{proxy.port},") + "&sslmode=disable&gssencmode=disable"
    service = serve(DATABASE_URL=url, **{**LIMITS, "SEARCH_DEADLINE_S": "15"})
    (api_key,) = create_tokens(service, 1)
    with Client(service) as client:
        assert client.search(api_key, "first").status == 200
        proxy.break_next("after", then_refuse=True)
        with Load(service, [api_key], rate=1, keep_alive=1) as load:
            assert proxy.broken.wait(30)
            pair.primary.kill()
            pair.standby.promote()
            load.wait_for_successes(1, since=0, timeout_s=30)
    assert load.answers[0].status == 200
    assert debits(pair)["load-0"] == 1


@pytest.mark.parametrize("then", ["it responds again", "the service is killed first", "it is promoted"])
def test_searches_during_a_hanging_standby_cost_nothing(serve: Serve, pair: PostgresPair, then: str) -> None:
    """Without Idempotency-Key. What was committed in vain is refunded, and what was answered is not."""
    service = serve(DATABASE_URL=pair.url, **LIMITS)
    api_keys = create_tokens(service, 4)

    def search(index: int) -> int:
        body, headers = {"api_key": api_keys[index % 4], "query": NUMBER}, {"X-Request-ID": f"search-{index}"}
        return requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30).status_code

    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(search, range(8))) == [200] * 8
        pair.standby.pause()
        try:
            assert set(callers.map(search, range(100, 112))) <= {500, 503}
            wait_for(lambda: unknown(pair.primary.url) > 0)
            with psycopg.connect(pair.primary.url) as database:
                waiting = database.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
                print(f"{then}: {waiting.fetchall()} sessions wait")  # noqa: T201
            if then == "the service is killed first":
                service.kill()
            if then == "it is promoted":
                pair.primary.kill()
        finally:
            pair.standby.resume()
        if then == "the service is killed first":
            service.start()
        if then == "it is promoted":
            pair.standby.promote()
        url = pair.standby.url if then == "it is promoted" else pair.primary.url
        wait_for(lambda: search(200) == 200)
    wait_for(lambda: not service.unknown_charges() and unknown(url) == 0)
    with psycopg.connect(url) as database:
        refunded = "SELECT refunds_id FROM accounts_creditentry WHERE kind = 'refund' AND reason = 'answer lost'"
        paid = f"SELECT request_id FROM accounts_creditentry WHERE kind = 'search' AND id NOT IN ({refunded})"
        answered = [f"search-{index}" for index in (*range(8), 200)]
        assert sorted(row[0] for row in database.execute(paid)) == sorted(answered)
    result = json.loads(service.manage("audit_credits", "--json"))
    print(f"{then}: {result}")  # noqa: T201
    assert result["disagreements"] == []
    assert result["unknown_charges"]["unknown"] == 0
    if then != "it is promoted":  # the promoted one may lack them
        assert result["unknown_charges"]["refunded"] > 0


def unknown(url: str) -> int:
    """Those in the table."""
    with psycopg.connect(url) as database:
        rows = database.execute("SELECT count(*) FROM accounts_unknowncharge WHERE outcome = 'unknown'").fetchall()
        return int(rows[0][0])
