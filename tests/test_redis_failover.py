"""A failover by Redis Sentinel under load: no error, and the documented limit."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.clusters import RedisCluster, wait_for
from tests.load import Load, create_tokens
from tests.servers import required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

LIMIT, WINDOW_S, WORKERS = 30, 60, 2


@pytest.fixture
def cluster() -> Iterator[RedisCluster]:
    with required():
        cluster = RedisCluster().start()
    yield cluster
    cluster.close()


def test_a_sentinel_failover_fails_no_search(
    serve: Callable[..., Service], postgres_url: str, cluster: RedisCluster
) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL=cluster.url, WORKERS=str(WORKERS), RATE_LIMIT=f"{LIMIT}/m")
    greedy, *frugal = create_tokens(service, 21)
    with Load(service, [greedy] * len(frugal) + frugal, rate=40) as load:
        load.wait_for_successes(LIMIT + 20, since=0, timeout_s=60)
        cluster.master.kill()
        cluster.wait_for_failover()
        wait_for(lambda: service.log().count("Redis is available again") >= WORKERS)
        load.wait_for_successes(20, since=time.monotonic(), timeout_s=30)
    print(load.statuses())  # noqa: T201
    assert set(load.statuses()) == {200, 429}
    accepted = sorted(
        (each.at, each.waited_s) for each in load.answers if each.status == 200 and each.api_key == greedy
    )
    assert len(accepted) >= LIMIT
    for (earlier, waited_s), (later, _) in zip(accepted, accepted[WORKERS * LIMIT :], strict=False):
        assert later - (earlier - waited_s) >= WINDOW_S
    assert {each.api_key for each in load.answers if each.status == 200} == {greedy, *frugal}
