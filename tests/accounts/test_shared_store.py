"""How Redis is reached: a name that nobody resolves holds no request, and TLS is verified."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

from accounts import redis_connections, shared_store
from tests.servers import RedisServer, required

pytestmark = pytest.mark.once

NAME = "redis.example.com"


@pytest.fixture(autouse=True)
def _new_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As after a start, with the settings that a test has made."""
    monkeypatch.setattr(shared_store, "_of_thread", threading.local())
    monkeypatch.setattr(redis_connections, "resolver", redis_connections.Resolver())
    shared_store.outage.__init__()  # type: ignore[misc]
    shared_store.client.cache_clear()
    yield
    shared_store.outage.__init__()  # type: ignore[misc]
    shared_store.client.cache_clear()


class Names:
    """A resolver that leads NAME to 127.0.0.1, once `answers` is set. `asked`: how often."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0
        self._real: Callable[..., Any] = socket.getaddrinfo

    def getaddrinfo(self, host: str, *arguments: Any, flags: int = 0, **options: Any) -> Any:
        if host != NAME or flags & socket.AI_NUMERICHOST:
            return self._real(host, *arguments, flags=flags, **options)
        self.asked += 1
        self.answers.wait()
        return self._real("127.0.0.1", *arguments, **options)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    yield names
    names.answers.set()


def by_name(server: RedisServer) -> str:
    return server.url.replace("127.0.0.1", NAME)


def test_name_that_nobody_resolves_holds_no_caller(redis_server: RedisServer, names: Names, settings: Any) -> None:
    settings.REDIS_PAUSE_S = 0
    url = by_name(redis_server)
    for ask in (lambda: shared_store.own_client(url).ping(), lambda: shared_store.client(url).ping()):
        with pytest.raises(shared_store.Away):
            shared_store.ask(ask)
    assert names.asked == 1  # whoever comes meanwhile waits for the same lookup
    names.answers.set()
    settings.REDIS_TIMEOUT_S = 20
    assert shared_store.ask(lambda: shared_store.own_client(url).ping())


def test_address_that_was_known_is_used_while_a_lookup_hangs(redis_server: RedisServer, names: Names) -> None:
    names.answers.set()
    client = shared_store.client(by_name(redis_server))
    assert client.ping()
    names.answers.clear()
    client.connection_pool.disconnect()
    assert client.ping()


def test_name_that_does_not_exist_is_an_outage(settings: Any) -> None:
    settings.REDIS_TIMEOUT_S = 20
    with pytest.raises(shared_store.Away) as away:
        shared_store.ask(lambda: shared_store.own_client("redis://redis.invalid:6379/0").ping())
    assert isinstance(away.value.__cause__, redis.ConnectionError)
    assert shared_store.outage.pausing


def test_every_address_of_a_name_is_tried(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def two(host: str, *arguments: Any, **options: Any) -> Any:
        if host != NAME or options.get("flags"):
            return real(host, *arguments, **options)
        return [*real("127.0.0.2", *arguments, **options), *real("127.0.0.1", *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", two)  # the server listens on the second one alone
    assert shared_store.client(by_name(redis_server)).ping()


class TLSRedisServer(RedisServer):
    """Speaks TLS alone, as `localhost`, with a certificate of a private authority."""

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


def test_redis_over_tls_is_reached_with_a_private_authority(tls_server: TLSRedisServer) -> None:
    assert shared_store.client(tls_server.url).ping()
    assert shared_store.own_client(tls_server.url).ping()


def test_redis_with_a_certificate_of_another_is_refused(tls_server: TLSRedisServer, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    refused = (
        tls_server.url.replace(str(tls_server.ca), str(tmp_path / "other.pem")),
        tls_server.url.partition("?")[0],
        tls_server.url.replace("localhost", "127.0.0.1"),
    )
    for url in refused:
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            shared_store.client(url).ping()
