"""A failover by Redis Sentinel under load: no error, and the documented limit."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.clusters import RedisCluster, wait_for
from tests.load import Load, create_tokens
from tests.reliability.operations import serve_hosts
from tests.servers import required
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
