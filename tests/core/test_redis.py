"""Connections to Redis: a slow DNS lookup blocks no request, and TLS certificates are verified."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

from core import redis as core_redis
from core import redis_connections
from tests.servers import RedisServer, required

pytestmark = pytest.mark.once

NAME = "redis.example.com"


@pytest.fixture(autouse=True)
def _new_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As after a start, with the settings of the test."""
    monkeypatch.setattr(redis_connections, "resolver", redis_connections.Resolver())
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    monkeypatch.setattr(core_redis, "thread_clients", threading.local())
    core_redis.client.cache_clear()
    yield
    core_redis.client.cache_clear()


class FakeDNS:
    """Resolves NAME to 127.0.0.1 once `answers` is set. `queries`: how many there were."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.queries = 0
        self._real: Callable[..., Any] = socket.getaddrinfo

    def getaddrinfo(self, host: str, *arguments: Any, flags: int = 0, **options: Any) -> Any:
        if host != NAME or flags & socket.AI_NUMERICHOST:
            return self._real(host, *arguments, flags=flags, **options)
        self.queries += 1
        self.answers.wait()
        return self._real("127.0.0.1", *arguments, **options)


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDNS]:
    dns = FakeDNS()
    monkeypatch.setattr(socket, "getaddrinfo", dns.getaddrinfo)
    yield dns
    dns.answers.set()


def by_name(server: RedisServer) -> str:
    return server.url.replace("127.0.0.1", NAME)


def test_hanging_dns_lookup_blocks_no_caller(redis_server: RedisServer, dns: FakeDNS, settings: Any) -> None:
    settings.REDIS_PAUSE_S, settings.REDIS_TIMEOUT_S = 0, 0.2
    url = by_name(redis_server)
    for _ in range(2):
        with pytest.raises(core_redis.RedisUnavailable):
            core_redis.call(core_redis.client(url).ping)
    assert dns.queries == 1  # concurrent callers wait for the same lookup
    dns.answers.set()
    settings.REDIS_TIMEOUT_S = 20
    core_redis.client.cache_clear()
    assert core_redis.call(core_redis.client(url).ping)


def test_cached_address_is_used_while_a_lookup_hangs(redis_server: RedisServer, dns: FakeDNS) -> None:
    dns.answers.set()
    client = core_redis.client(by_name(redis_server))
    assert client.ping()
    dns.answers.clear()
    client.connection_pool.disconnect()
    assert client.ping()


def test_unknown_host_name_is_unavailable(settings: Any) -> None:
    settings.REDIS_TIMEOUT_S = 20
    with pytest.raises(core_redis.RedisUnavailable) as raised:
        core_redis.call(core_redis.client("redis://redis.invalid:6379/0").ping)
    assert isinstance(raised.value.__cause__, redis.ConnectionError)
    assert core_redis.availability.paused


def test_every_address_of_a_name_is_tried(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def two(host: str, *arguments: Any, **options: Any) -> Any:
        if host != NAME or options.get("flags"):
            return real(host, *arguments, **options)
        return [*real("127.0.0.2", *arguments, **options), *real("127.0.0.1", *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", two)  # the server listens on the second one alone
    assert core_redis.client(by_name(redis_server)).ping()


def test_each_thread_keeps_one_connection(redis_server: RedisServer) -> None:
    def connection_id() -> int:
        return int(core_redis.thread_client(redis_server.url).client_id())

    with ThreadPoolExecutor(1) as other:
        here, there = connection_id(), other.submit(connection_id).result()
        assert here != there
        assert (connection_id(), other.submit(connection_id).result()) == (here, there)


def test_a_connection_closed_while_idle_is_replaced(redis_server: RedisServer) -> None:
    client = core_redis.thread_client(redis_server.url)
    first_id = client.client_id()
    core_redis.client(redis_server.url).client_kill_filter(_id=str(first_id))
    assert core_redis.call(client.client_id) != first_id


class TLSRedisServer(RedisServer):
    """Accepts only TLS, as `localhost`, with a certificate of a private authority."""

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__()
        self.ca = self.directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(self.directory / "server.pem")

    @property
    def url(self) -> str:
        return f"rediss://localhost:{self.port}/0?ssl_ca_certs={self.ca}"

    def command(self) -> list[str]:
        pem = str(self.directory / "server.pem")
        tls = ["--tls-port", str(self.port), "--tls-cert-file", pem, "--tls-key-file", pem, "--tls-auth-clients", "no"]
        return [*super().command(), "--port", "0", "--tls-ca-cert-file", str(self.ca), *tls]


@pytest.fixture
def tls_server() -> Iterator[TLSRedisServer]:
    with required():
        server = TLSRedisServer(trustme.CA()).start()
    yield server
    server.close()


def test_tls_with_a_private_authority_connects(tls_server: TLSRedisServer) -> None:
    assert core_redis.client(tls_server.url).ping()


def test_tls_with_a_wrong_certificate_is_refused(tls_server: TLSRedisServer, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    urls = (
        tls_server.url.replace(str(tls_server.ca), str(tmp_path / "other.pem")),
        tls_server.url.partition("?")[0],
        tls_server.url.replace("localhost", "127.0.0.1"),
    )
    for url in urls:
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            core_redis.client(url).ping()
