"""Redis Sentinel: its URLs, and that each new connection goes to the present master."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from core import redis as core_redis
from core import redis_sentinel
from core.redis_sentinel import Master
from tests.clusters import RedisCluster
from tests.servers import required

pytestmark = pytest.mark.once


def test_urls_name_sentinels_master_and_passwords() -> None:
    assert redis_sentinel.parse("sentinel://s1,s2:5000/mymaster") == Master(
        "mymaster", "redis://@/?", ("redis://s1:26379?", "redis://s2:5000?")
    )
    url = "sentinels://user:p%40ss@s1:1,[::1]/main/3?ssl_ca_certs=/etc/ca.pem&sentinel_password=a%2Fb"
    assert redis_sentinel.parse(url) == Master(
        "main",
        "rediss://user:p%40ss@/3?ssl_ca_certs=%2Fetc%2Fca.pem",
        (
            "rediss://:a%2Fb@s1:1?ssl_ca_certs=%2Fetc%2Fca.pem",
            "rediss://:a%2Fb@[::1]:26379?ssl_ca_certs=%2Fetc%2Fca.pem",
        ),
    )


@pytest.mark.parametrize(
    "url",
    ["redis://h/0", "sentinel://s1:26379", "sentinel:///mymaster/0", "sentinel://s1,,s2/m", "sentinel://s1:x/m/0"],
)
def test_other_urls_are_not_sentinel_urls(url: str) -> None:
    assert redis_sentinel.parse(url) is None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[RedisCluster]:
    monkeypatch.setattr(core_redis, "thread_clients", threading.local())
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    settings.REDIS_TIMEOUT_S, settings.REDIS_PAUSE_S = 2, 0
    core_redis.client.cache_clear()
    with required():
        cluster = RedisCluster().start()
    yield cluster
    cluster.close()
    core_redis.client.cache_clear()


@pytest.mark.slow
def test_clients_follow_the_master(cluster: RedisCluster) -> None:
    clients = (core_redis.client(cluster.url), core_redis.thread_client(cluster.url))

    def port() -> set[str | None]:
        return {core_redis.call(partial(client.config_get, "port"))["port"] for client in clients}

    assert port() == {str(cluster.master.port)}
    cluster.master.kill()
    with pytest.raises(core_redis.RedisUnavailable):  # the Sentinel has not noticed yet
        core_redis.call(clients[1].ping)
    cluster.wait_for_failover()
    assert port() == {str(cluster.replica.port)}
    cluster.sentinel.stop()
    assert port() == {str(cluster.replica.port)}  # connections stay
    assert clients[1].connection
    clients[1].connection.disconnect()
    with pytest.raises(core_redis.RedisUnavailable):
        core_redis.call(clients[1].ping)
