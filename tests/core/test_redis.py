"""Connections to Redis: broken ones are replaced, a late event loop is no outage, and TLS certificates are verified."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

from core import loop
from core import redis as core_redis
from core.redis import Client
from tests import awaited
from tests.server_name import server_name
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
        with closing(redis.Redis.from_url(server.url)) as admin:
            admin.client_kill_filter(_id=str(first_id))
    else:
        server.stop()
        server.start()
    assert execute("CLIENT", "ID") != first_id if closed == "one" else execute("PING") == b"PONG"
    assert not core_redis.availability.unavailable


def reply_with_error(text: str) -> None:
    """Redis replies with this error."""
    with pytest.raises(core_redis.RedisUnavailable):
        execute("EVAL", "return redis.error_reply(ARGV[1])", 0, text)


@pytest.mark.parametrize(
    "text",
    [
        "NOSCRIPT No matching script. Please use EVAL.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR Error running script (call to f_1): @user_script:9: -WRONGTYPE Operation against a key",  # before Redis 7
    ],
)
def test_an_error_of_one_command_keeps_the_connection(server: RedisServer, text: str) -> None:
    first_id = execute("CLIENT", "ID")
    reply_with_error(text)
    assert not core_redis.availability.unavailable
    assert execute("CLIENT", "ID") == first_id


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("READONLY You can't write against a read only replica.", "READONLY"),
        ("ERR Error running script (call to f_1): @user_script:9: -READONLY You can't write against", "READONLY"),
        ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS"),
        ("ERR Error running script (call to f_1): @user_script:6: -OOM command not allowed when used memory", "OOM"),
        ("MISCONF Redis is configured to save RDB snapshots, but it's unable to persist to disk.", "MISCONF"),
        ("LOADING Redis is loading the dataset in memory", "LOADING"),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "MASTERDOWN"),
        ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN"),
        ("MOVED 7365 192.0.2.7:6379", "MOVED"),
        ("UNBLOCKED force unblock from blocking operation, instance state changed", "UNBLOCKED"),
        ("BUSY Redis is busy running a script.", "BUSY"),
        ("NOPERM this user has no permissions to run the 'evalsha' command", "NOPERM"),
        ("ERR unknown command `EVALSHA`, with args beginning with: `5aab`", "ERR"),
        ("a proxy of its own kind refuses", "ResponseError"),
    ],
)
def test_every_other_error_reply_opens_a_new_connection(
    server: RedisServer, caplog: pytest.LogCaptureFixture, text: str, code: str
) -> None:
    first_id = execute("CLIENT", "ID")
    reply_with_error(text)
    assert core_redis.availability.unavailable
    assert f"Redis is unavailable ({code})" in caplog.text
    core_redis.availability = core_redis.Availability()
    assert execute("CLIENT", "ID") != first_id


def test_a_reply_that_arrived_while_the_loop_was_late_is_used(server: RedisServer, settings: Any) -> None:
    settings.REDIS_TIMEOUT_S = 0.2
    execute("PING")  # connected

    async def blocked(client: Client) -> Any:
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
        client = core_redis.client(server.url)
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


# --- A failover behind one name --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_connection_in_use_at_the_failover_is_not_kept(
    server: RedisServer, start_redis: Callable[..., RedisServer], settings: Any
) -> None:
    new_primary = start_redis()

    async def fail_over(client: Client) -> list[bytes]:
        await asyncio.gather(client.execute("PING"), client.execute("PING"))  # on a connection each
        with closing(redis.Redis.from_url(server.url)) as old:
            reading = asyncio.create_task(client.execute("XREAD", "BLOCK", 500, "STREAMS", "key", "$"))
            while not old.info("clients")["blocked_clients"]:
                await asyncio.sleep(0.01)
            old.config_set("min-replicas-to-write", 1)
        name.resolves_to = new_primary.port
        with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
            await client.execute("SET", "key", "value")
        await reading  # the old primary still replies to what only reads
        return await asyncio.gather(*[client.execute("SET", "key", "value") for _ in range(3)])

    with server_name(server.port) as name:
        settings.REDIS_URL = f"redis://127.0.0.1:{name.port}/0"
        assert core_redis.call(fail_over) == [b"OK"] * 3
        awaited.disconnect_from_redis()


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
    assert execute("PING") == b"PONG"
    urls = (
        tls_server.url.replace(str(tls_server.ca), str(tmp_path / "other.pem")),
        tls_server.url.partition("?")[0],
        tls_server.url.replace("localhost", "127.0.0.1"),
    )
    for url in urls:
        settings.REDIS_URL = url
        with pytest.raises(core_redis.RedisUnavailable) as raised:
            execute("PING")
        assert "certificate verify failed" in str(raised.value.__cause__)
