"""Redis Sentinel: its URLs, and that each new connection goes to the present master."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from django.conf import settings

from core import loop, redis_sentinel
from core import redis as core_redis
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


def master_of_pages() -> int:
    """The port of the server that the console's pages use."""
    client = core_redis.client(settings.REDIS_URL)
    return int(str(core_redis.call(partial(client.config_get, "port"))["port"]))


def master_of_searches() -> int:
    return int(loop.run(core_redis.call_on_loop(lambda client: client.execute("CONFIG", "GET", "port")))[b"port"])


@pytest.mark.slow
@pytest.mark.parametrize("port", [master_of_pages, master_of_searches])
def test_a_silent_sentinel_leaves_time_for_the_next(
    cluster: RedisCluster, settings: Any, port: Callable[[], int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sentinels = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{cluster.sentinel.port}"
        settings.REDIS_URL = f"sentinel://:{PASSWORD}@{sentinels}/mymaster/0"
        assert port() == cluster.master.port


@contextmanager
def slow_proxy(port: int, delay_s: float) -> Iterator[int]:
    """The port of a TCP proxy to `port` that holds each reply for so long."""
    opened: list[socket.socket] = []

    def copy(source: socket.socket, target: socket.socket, delay_s: float) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                time.sleep(delay_s)
                target.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                opened.extend((client, server))
                for each in ((client, server, 0), (server, client, delay_s)):
                    threading.Thread(target=copy, args=each, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


@pytest.mark.slow
def test_pages_wait_longer_for_a_slow_sentinel_than_searches(cluster: RedisCluster, settings: Any) -> None:
    with slow_proxy(cluster.sentinel.port, delay_s=1.2) as port:
        settings.REDIS_URL = f"sentinel://:{PASSWORD}@127.0.0.1:{port}/mymaster/0"
        with pytest.raises(core_redis.RedisUnavailable):  # the Sentinel has half of REDIS_TIMEOUT_S
            master_of_searches()
        assert master_of_pages() == cluster.master.port


@pytest.mark.slow
@pytest.mark.parametrize("port", [master_of_pages, master_of_searches])
def test_clients_follow_the_master(cluster: RedisCluster, port: Callable[[], int]) -> None:
    assert port() == cluster.master.port
    cluster.master.kill()
    with pytest.raises(core_redis.RedisUnavailable):  # the Sentinel has not noticed yet
        port()
    cluster.wait_for_failover()
    assert port() == cluster.replica.port
    cluster.sentinel.stop()
    assert port() == cluster.replica.port  # connections stay
    awaited.disconnect_from_redis()
    with pytest.raises(core_redis.RedisUnavailable):
        port()
