"""What a search costs on real servers, as they count it, because timings on a busy machine vary."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
import redis
import requests

from tests.api import NUMBER
from tests.plugin import of_addons
from tests.servers import PostgresServer, fresh_database, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

SEARCHES = 200


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The database of a separate server, which writes for these searches only."""
    with required():
        server = PostgresServer().start()
    with fresh_database(server.url) as url:
        yield url
    server.close()


@pytest.fixture
def environment() -> dict[str, str]:
    """Without the rows that add-ons write for each search."""
    return of_addons("NO_ROWS")


@pytest.fixture
def most_wal() -> int:
    """One ledger entry with its index entries, and the token's updated row. Another written row would exceed it."""
    return 1_000


@pytest.fixture
def service(serve: Callable[..., Service], postgres_url: str, redis_url: str, environment: dict[str, str]) -> Service:
    return serve(DATABASE_URL=postgres_url, REDIS_URL=redis_url, RATE_LIMIT="100000/m", **environment)


@pytest.fixture
def search(service: Service) -> Callable[[int], None]:
    key = service.manage("create_token", "costs", "--credits", "100000", "--quiet").strip()
    service.manage("load_numbering_plan")
    session = requests.Session()

    def search(how_many: int) -> None:
        for _ in range(how_many):
            answer = session.post(f"{service.url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)
            assert answer.status_code == 200

    search(20)
    return search


def test_a_search_calls_redis_once(search: Callable[[int], None], redis_url: str) -> None:
    client = redis.Redis.from_url(redis_url)
    before = client.info("commandstats")
    search(SEARCHES)
    after = client.info("commandstats")
    calls = {
        name.removeprefix("cmdstat_"): how_many
        for name, row in after.items()
        if (how_many := row["calls"] - before.get(name, {"calls": 0})["calls"])
    }
    limit = {"time", "lindex", "lrange", "ltrim", "llen", "rpush", "persist"}
    script_commands = {*limit, "zadd", "zrangebyscore", "del", "zrem"}
    assert {name: calls[name] for name in calls.keys() - script_commands - {"info"}} == {"evalsha": SEARCHES}


def test_a_search_writes_no_more_than_its_debit(
    service: Service, search: Callable[[int], None], postgres_url: str, most_wal: int
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as database:

        def written() -> int:
            row = database.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
            return int(row[0]) if row else 0

        # The first change of a page after a checkpoint writes the whole page: do that before measuring.
        database.execute("CHECKPOINT")
        search(SEARCHES)
        before, logged = written(), len(service.log())
        search(SEARCHES)
        wal, log = (written() - before) / SEARCHES, (len(service.log()) - logged) / SEARCHES
    assert 0 < wal < most_wal
    # One line of at most 230 characters.
    assert 0 < log < 230
