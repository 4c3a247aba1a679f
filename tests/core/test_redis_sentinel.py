"""Redis Sentinel: its URLs, and that each new connection goes to the present master."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from core import redis as core_redis
from core import redis_sentinel
from core.redis_sentinel import Master
from tests import awaited
from tests.clusters import PASSWORD, RedisCluster
from tests.servers import required

pytestmark = pytest.mark.once


def test_urls_name_sentinels_master_and_passwords() -> None:
    assert redis_sentinel.parse("sentinel://s1, s2:5000/mymaster") == Master(
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
    """The process uses it."""
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    awaited.disconnect_from_redis()
    with required():
        cluster = RedisCluster().start()
    settings.REDIS_URL, settings.REDIS_TIMEOUT_S, settings.REDIS_RETRY_S = cluster.url, 2, 0
    yield cluster
    awaited.disconnect_from_redis()
    cluster.close()
    awaited.disconnect_from_redis()


def master_port() -> int:
    """The port of the server that the process uses."""
    return int(core_redis.call(lambda client: client.execute("CONFIG", "GET", "port"))[b"port"])


@pytest.mark.slow
def test_a_silent_sentinel_leaves_time_for_the_next(cluster: RedisCluster, settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sentinels = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{cluster.sentinel.port}"
        settings.REDIS_URL = f"sentinel://:{PASSWORD}@{sentinels}/mymaster/0"
        assert master_port() == cluster.master.port


@pytest.mark.slow
def test_new_connections_go_to_the_new_master(cluster: RedisCluster) -> None:
    assert master_port() == cluster.master.port
    cluster.master.kill()
    with pytest.raises(core_redis.RedisUnavailable):  # the Sentinel has not noticed yet
        master_port()
    cluster.wait_for_failover()
    assert master_port() == cluster.replica.port
    cluster.sentinel.stop()
    assert master_port() == cluster.replica.port  # connections stay
    awaited.disconnect_from_redis()
    with pytest.raises(core_redis.RedisUnavailable):
        master_port()
