"""Searches read a replica: nothing older than the limit, nothing erased, and no failure when it fails."""

import json
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
import requests

from core.replica import MAX_LAG_S
from tests.api import NUMBER
from tests.clusters import PostgresPair, wait_for
from tests.servers import required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

#: Far above any timeout.
BOUND_S = 8


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with required():
        pair = PostgresPair().start(synchronous=False)
    yield pair
    pair.close()


def test_searches_read_a_replica_but_nothing_stale(serve: Callable[..., Service], pair: PostgresPair) -> None:
    service = serve(
        DATABASE_URL=pair.primary.url,
        DATABASE_REPLICA_URL=pair.standby.url,
        REDIS_URL="",
        RATE_LIMIT="100000/m",
        SEARCH_DEADLINE_S="1.5",
        DB_STATEMENT_TIMEOUT_MS="500",
    )
    key = service.manage("create_token", "replica", "--credits", "1000", "--quiet").strip()
    searches = 0

    def name() -> str | None:
        nonlocal searches
        response = requests.post(f"{service.url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)
        searches += 1
        assert (response.status_code, response.elapsed.total_seconds() < BOUND_S) == (200, True), service.log()
        assert response.json()["credits_remaining"] == 1000 - searches
        found: str | None = response.json()["data"]["source_a"].get("name")
        return found

    with (
        psycopg.connect(pair.primary.url, autocommit=True) as primary,
        psycopg.connect(pair.standby.url, autocommit=True) as standby,
    ):
        primary.execute(
            "INSERT INTO lookup_contact (number, name, location, updated_at) VALUES (%s, 'old', '', now())",
            [int(NUMBER)],
        )
        wait_for(lambda: name() == "old")
        wait_for(lambda: standby.execute("SELECT count(*) FROM lookup_contact").fetchone() == (1,))
        time.sleep(1.1)  # the replica is not paused
        assert name() == "old"
        standby.execute("SELECT pg_wal_replay_pause()")
        primary.execute("UPDATE lookup_contact SET name = 'new'")
        changed_at = time.monotonic()
        assert name() == "old"  # it reads the replica
        wait_for(lambda: name() == "new")  # and no longer, since it lags
        assert time.monotonic() - changed_at < MAX_LAG_S + BOUND_S
        standby.execute("SELECT pg_wal_replay_resume()")
        primary.execute("UPDATE lookup_contact SET name = 'newest'")
        wait_for(lambda: name() == "newest")
        time.sleep(1.1)
        name()
        standby.execute("SELECT pg_wal_replay_pause()")
        service.manage("forget", NUMBER)
        assert name() is None  # the replica has it still
        standby.execute("SELECT pg_wal_replay_resume()")
    assert "the replica failed" not in service.log()

    pair.standby.pause()
    wait_for(lambda: name() is None and "the replica failed" in service.log())
    assert [name() for _ in range(5)] == [None] * 5
    pair.standby.resume()
    wait_for(lambda: name() is None and "the replica is read again" in service.log())
    pair.standby.kill()
    wait_for(lambda: name() is None and service.log().count("the replica failed") == 2)
    assert [name() for _ in range(5)] == [None] * 5
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}
