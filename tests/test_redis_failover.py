"""A failover by Redis Sentinel, or behind one name, under load: no error, and the documented limit."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import redis
import requests

from tests.clusters import RedisCluster
from tests.load import Load, create_tokens, wait_for
from tests.metrics import scrape
from tests.reliability.operations import serve_hosts
from tests.server_name import server_name
from tests.servers import RedisServer, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

LIMIT, WINDOW_S, INSTANCES = 30, 60, 2


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with required():
        cluster = RedisCluster().start()
    yield cluster
    cluster.close()


def test_a_sentinel_failover_fails_no_search(
    serve: Callable[..., Service], postgres_url: str, cluster: RedisCluster
) -> None:
    environment = {"DATABASE_URL": postgres_url, "REDIS_URL": cluster.url, "RATE_LIMIT": f"{LIMIT}/m"}
    service, *others = instances = serve_hosts(serve, environment, count=INSTANCES)
    greedy, *frugal = create_tokens(service, 21)
    with Load(service, [greedy] * len(frugal) + frugal, others=others, rate=40) as load:
        load.wait_for_successes(LIMIT + 20, since=0, timeout_s=60)
        cluster.master.kill()
        cluster.wait_for_failover()
        wait_for(lambda: all("Redis is available again" in each.log() for each in instances))
        load.wait_for_successes(20, since=time.monotonic(), timeout_s=30)
    print(load.statuses())  # noqa: T201
    assert set(load.statuses()) == {200, 429}
    accepted = sorted(
        (each.at, each.waited_s) for each in load.answers if each.status == 200 and each.api_key == greedy
    )
    assert len(accepted) >= LIMIT
    for (earlier, waited_s), (later, _) in zip(accepted, accepted[INSTANCES * LIMIT :], strict=False):
        assert later - (earlier - waited_s) >= WINDOW_S
    assert {each.api_key for each in load.answers if each.status == 200} == {greedy, *frugal}


@pytest.mark.parametrize("fence", ["REPLICAOF 127.0.0.1 {port}", "CONFIG SET min-replicas-to-write 1"])
def test_a_failover_behind_one_name_is_over_after_seconds(
    serve: Callable[..., Service], redis_server: RedisServer, start_redis: Callable[..., RedisServer], fence: str
) -> None:
    """The old primary keeps its connections, and refuses to write."""
    new_primary = start_redis()

    def fail_authentication() -> int:
        return requests.post(f"{service.url}/callerid/search", json={"api_key": "wrong", "query": "1"}).status_code

    def fallbacks() -> float:
        return scrape(service.url).of("callerid_rate_limit_fallbacks_total")

    with server_name(redis_server.port) as name, closing(redis.Redis.from_url(redis_server.url)) as old:
        service = serve(REDIS_URL=f"redis://127.0.0.1:{name.port}/0", RATE_LIMIT="1000/m")
        with Load(service, create_tokens(service, 20), rate=20) as load:
            load.wait_for_successes(20, since=0, timeout_s=60)
            assert fail_authentication() == 401
            assert fallbacks() == 0
            old.execute_command(fence.format(port=new_primary.port))
            name.resolves_to = new_primary.port
            wait_for(lambda: "Redis is available again" in service.log())
            counted_alone = fallbacks()
            load.wait_for_successes(20, since=time.monotonic(), timeout_s=60)
            assert fail_authentication() == 401
            assert fallbacks() == counted_alone > 0
        assert set(load.statuses()) == {200}
        assert len(old.client_list(_type="normal")) == 1
    assert service.log().count("Redis is unavailable") == service.log().count("Redis is available again") == 1
    with closing(redis.Redis.from_url(new_primary.url)) as new:
        assert new.zcard("callerid:limits") == 21  # of the tokens, and of the address
