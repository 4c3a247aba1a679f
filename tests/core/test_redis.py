"""Connections to Redis: broken ones are replaced, a late event loop is no outage, and TLS certificates are verified."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

from core import loop
from core import redis as core_redis
from core.redis import LoopClient
from tests import awaited
from tests.servers import RedisServer, required

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _new_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As after a start, with the settings of the test."""
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    awaited.disconnect_from_redis()
    yield
    awaited.disconnect_from_redis()


@pytest.fixture
def server(redis_server: RedisServer, settings: Any) -> RedisServer:
    """The process uses it."""
    settings.REDIS_URL = redis_server.url
    return redis_server


def execute(*command: str | bytes | float) -> Any:
    return loop.run(core_redis.call_on_loop(lambda client: client.execute(*command)))


# --- On the event loop -----------------------------------------------------------------------------------------------


def test_one_connection_serves_one_search_after_the_other(server: RedisServer) -> None:
    assert len({execute("CLIENT", "ID") for _ in range(5)}) == 1


def test_searches_at_once_have_a_connection_each(server: RedisServer) -> None:
    async def at_once(count: int) -> list[int]:
        calls = [core_redis.call_on_loop(lambda client: client.execute("CLIENT", "ID")) for _ in range(count)]
        return await asyncio.gather(*calls)

    first = loop.run(at_once(300))
    assert len(set(first)) == 300
    assert set(loop.run(at_once(300))) == set(first)
    assert not core_redis.availability.unavailable


@pytest.mark.parametrize("closed", ["one", "all"])
def test_a_connection_closed_while_idle_is_replaced(server: RedisServer, closed: str) -> None:
    first_id = execute("CLIENT", "ID")
    if closed == "one":
        core_redis.client(server.url).client_kill_filter(_id=str(first_id))
    else:
        server.stop()
        server.start()
    assert execute("CLIENT", "ID") != first_id if closed == "one" else execute("PING") == b"PONG"
    assert not core_redis.availability.unavailable


def test_an_error_reply_keeps_the_connection(server: RedisServer) -> None:
    first_id = execute("CLIENT", "ID")
    with pytest.raises(redis.exceptions.NoScriptError):
        loop.run(core_redis.loop_client(server.url).execute("EVALSHA", "0" * 40, 0))
    assert execute("CLIENT", "ID") == first_id


def test_a_server_that_became_a_replica_is_left(server: RedisServer) -> None:
    first_id = execute("CLIENT", "ID")
    with closing(redis.Redis.from_url(server.url)) as admin:
        admin.replicaof("127.0.0.1", "1")
        with pytest.raises(core_redis.RedisUnavailable):
            execute("SET", "key", "value")
        admin.replicaof("NO", "ONE")
    core_redis.availability = core_redis.Availability()
    assert execute("CLIENT", "ID") != first_id


def test_a_reply_that_arrived_while_the_loop_was_late_is_used(server: RedisServer, settings: Any) -> None:
    settings.REDIS_TIMEOUT_S = 0.2
    execute("PING")  # connected

    async def blocked(client: LoopClient) -> Any:
        asyncio.get_running_loop().call_soon(time.sleep, 0.5)  # when the command is sent
        return await client.execute("PING")

    assert loop.run(core_redis.call_on_loop(blocked)) == b"PONG"
    assert not core_redis.availability.unavailable


def test_a_silent_server_is_an_outage_in_time(server: RedisServer, settings: Any) -> None:
    settings.REDIS_TIMEOUT_S = 0.2
    execute("PING")
    server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(core_redis.RedisUnavailable) as raised:
            execute("PING")
        assert time.monotonic() - began < 10
        assert isinstance(raised.value.__cause__, TimeoutError)
        assert core_redis.availability.unavailable
    finally:
        server.resume()


def test_a_late_reply_is_no_reply_to_the_next_command(server: RedisServer, settings: Any) -> None:
    settings.REDIS_TIMEOUT_S, settings.REDIS_RETRY_S = 0.2, 0
    execute("SET", "key", "late")
    server.pause()
    try:
        with pytest.raises(core_redis.RedisUnavailable):
            execute("GET", "key")
    finally:
        server.resume()
    settings.REDIS_TIMEOUT_S = 20
    assert [execute("ECHO", word) for word in ("a", "b", "c")] == [b"a", b"b", b"c"]


def test_a_cancelled_search_leaves_no_reply_to_the_next(server: RedisServer) -> None:
    async def cancelled() -> None:
        client = core_redis.loop_client(server.url)
        for _ in range(20):
            call = asyncio.create_task(client.execute("ECHO", "of another search"))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    execute("PING")
    loop.run(cancelled())
    assert execute("ECHO", "mine") == b"mine"
    with closing(redis.Redis.from_url(server.url)) as admin:
        assert len(admin.client_list()) <= 3  # the admin's, this client's, and one that is being closed


# --- TLS -------------------------------------------------------------------------------------------------------------


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


def test_only_the_right_tls_certificate_is_accepted(tls_server: TLSRedisServer, tmp_path: Path, settings: Any) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    settings.REDIS_RETRY_S, settings.REDIS_URL = 0, tls_server.url
    assert core_redis.client(tls_server.url).ping()
    assert execute("PING") == b"PONG"
    urls = (
        tls_server.url.replace(str(tls_server.ca), str(tmp_path / "other.pem")),
        tls_server.url.partition("?")[0],
        tls_server.url.replace("localhost", "127.0.0.1"),
    )
    for url in urls:
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            core_redis.client(url).ping()
        settings.REDIS_URL = url
        with pytest.raises(core_redis.RedisUnavailable) as raised:
            execute("PING")
        assert "certificate verify failed" in str(raised.value.__cause__)
