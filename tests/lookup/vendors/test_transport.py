"""The call timeout, retries, connections, and what errors reveal."""

import asyncio
import gzip
import socket
import time
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from core import loop
from core.addresses import AddressPolicy, require_allowed
from core.http import BadResponse, RequestFailed
from lookup.vendors import transport
from lookup.vendors.transport import Request
from tests import upstream
from tests.lookup.vendors.calls import close_clients, get, resolve_to, send
from tests.servers import free_port
from tests.upstream import Behaviour, Upstream, raw, says

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _new_clients() -> None:
    close_clients()


def test_connection_is_reused(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({"a": 1}))
    replies = [get(server.url + "/x") for _ in range(3)]
    assert [(reply.status, reply.body) for reply in replies] == [(200, b'{"a": 1}')] * 3
    assert server.connections == 1


def test_redirect_is_not_followed(vendor: Callable[..., Upstream]) -> None:
    target = vendor(says({}))
    server = vendor(raw(b"", 307, f"Location: {target.url}/stolen\r\n"))
    assert get(server.url).status == 307
    assert (len(server.heads), target.connections) == (1, 0)


def test_proxies_and_netrc_of_the_environment_are_not_used(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proxy, server = vendor(says({"from": "proxy"})), vendor(says({"from": "vendor"}))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert get(server.url).body == b'{"from": "vendor"}'
    assert (proxy.connections, b"Authorization" in server.heads[0]) == (0, False)


def test_cookies_are_not_stored(vendor: Callable[..., Upstream]) -> None:
    server = vendor(raw(b"{}", 200, "Set-Cookie: track=me\r\n"))
    get(server.url)
    get(server.url)
    assert not any(b"Cookie" in head for head in server.heads)


def test_body_is_read_up_to_the_limit(vendor: Callable[..., Upstream]) -> None:
    assert len(get(vendor(raw(b"x" * 1000)).url).body) == 1000
    for too_large in (raw(b"x" * 1001), upstream.endless, raw(upstream.BOMB, 200, "Content-Encoding: gzip\r\n")):
        with pytest.raises(BadResponse, match="larger than 1000 bytes"):
            get(vendor(too_large).url)


RAW_DEFLATE = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("coding", "sent"),
    [
        *(("gzip", gzip.compress(b"{") + gzip.compress(b"}")), ("gzip", gzip.compress(b"{}") + b"\0\0")),
        *(("deflate", zlib.compress(b"{}")), ("deflate", b"{}"), ("br", b"{}")),
        ("deflate", RAW_DEFLATE.compress(b"{}") + RAW_DEFLATE.flush()),
    ],
)
def test_compressed_body_is_unpacked(vendor: Callable[..., Upstream], coding: str, sent: bytes) -> None:
    assert get(vendor(raw(sent, 200, f"Content-Encoding: {coding}\r\n" * bool(coding))).url).body == b"{}"


@pytest.mark.parametrize("sent", [gzip.compress(b"{}")[:-9], b"\x1f\x8bPrivate", b"\x1f\x8b"])
def test_damaged_compression_is_a_failure(vendor: Callable[..., Upstream], sent: bytes) -> None:
    with pytest.raises(RequestFailed, match="compressed answer"):
        get(vendor(raw(sent, 200, "Content-Encoding: gzip\r\n")).url)


def test_headers_may_be_long(vendor: Callable[..., Upstream]) -> None:
    policy = f"Content-Security-Policy: default-src {'https://a.example.com ' * 1000}\r\n"
    assert get(vendor(raw(b"{}", 200, policy * 2)).url).body == b"{}"
    with pytest.raises(RequestFailed):
        get(vendor(raw(b"{}", 200, policy * 200)).url)


BOMB_HEADERS = "Content-Encoding: gzip\r\nLocation: /elsewhere\r\n"
GZIP_HEAD = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
TRAILING = GZIP_HEAD + gzip.compress(b"{}") + bytes(20_000_000)


@pytest.mark.parametrize(
    "behave", [raw(upstream.BOMB, 200, BOMB_HEADERS), raw(upstream.BOMB, 301, BOMB_HEADERS), upstream.sends(TRAILING)]
)
def test_compression_bomb_is_not_unpacked(vendor: Callable[..., Upstream], behave: Behaviour) -> None:
    server = vendor(behave)
    tracemalloc.start()
    with suppress(RequestFailed):
        get(server.url)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 2**20


def test_call_on_a_reused_connection_ends_at_its_timeout(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({}))
    get(server.url)
    server.behave_as(upstream.drips_body)
    with pytest.raises(TimeoutError):
        get(server.url, timeout_s=0.2)
    server.behave_as(says({}))
    assert get(server.url).status == 200  # the next call opens a new connection


# --- Retries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The addresses that a connection was attempted to."""
    attempts: list[object] = []
    checked = require_allowed

    def counted(address: str, policy: AddressPolicy) -> None:
        attempts.append(address)
        checked(address, policy)

    monkeypatch.setattr(transport, "require_allowed", counted)
    return attempts


def test_refused_connection_is_retried_once(connections: list[object]) -> None:
    with pytest.raises(RequestFailed, match="could not be reached"):
        get(f"http://127.0.0.1:{free_port()}")
    assert len(connections) == 2


def test_next_address_is_used_if_one_is_down(vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch) -> None:
    server = vendor(says({}))
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    assert get(f"http://vendor.example.com:{server.port}").status == 200


def test_hanging_dns_lookup_ends_at_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: answered.wait(60))
    try:
        with pytest.raises(TimeoutError):
            get("http://vendor.example.com", timeout_s=0.2)
    finally:
        answered.set()


def test_unknown_host_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: list[str] = []

    def unknown(host: str, *args: Any, **options: Any) -> Any:
        lookups.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(RequestFailed, match="the server's name cannot be resolved"):
        get("http://vendor.example.com")
    assert lookups == ["vendor.example.com"]


def test_connection_closed_by_the_vendor_is_reopened(vendor: Callable[..., Upstream]) -> None:
    server = vendor(lambda conversation: bool(says({})(conversation)) and False)  # closes after each answer
    for _ in range(3):
        assert get(server.url).status == 200
        while server.open_connections:
            time.sleep(0.005)
    assert (len(server.heads), server.connections) == (3, 3)


def test_new_connections_are_used_after_a_lost_call(vendor: Callable[..., Upstream]) -> None:
    """A silent failover leaves dead connections in the pool; each would fail a call."""
    server = vendor(upstream.slow(0.1, says({})))
    with ThreadPoolExecutor(3) as callers:
        list(callers.map(get, [server.url] * 3))
    assert server.connections == 3
    server.behave_as(upstream.hangs)
    with pytest.raises(TimeoutError):
        get(server.url, timeout_s=0.1)
    server.behave_as(says({}))
    assert get(server.url).status == 200
    assert server.connections == 4
    while server.open_connections > 2:  # the new one, and the one that the server holds; the idle ones are closed
        time.sleep(0.005)


def test_calls_in_flight_survive_a_lost_call(vendor: Callable[..., Upstream]) -> None:
    server, arrived, go_on = vendor(says({})), Barrier(2), Event()
    server.behave_as(upstream.held(go_on, says({}), arrived))
    with ThreadPoolExecutor(1) as callers:
        held = callers.submit(get, server.url, timeout_s=20)
        arrived.wait(20)
        server.behave_as(upstream.resets)
        with pytest.raises(RequestFailed):
            get(server.url)
        go_on.set()
        assert held.result(20).status == 200


def test_connection_idle_for_long_is_replaced(vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "IDLE_S", 0.3)
    server = vendor(says({}))
    get(server.url)
    get(server.url)
    while server.open_connections:
        time.sleep(0.005)
    get(server.url)
    assert server.connections == 2


@pytest.mark.parametrize("fault", ["resets", "stops short", "500", "503", "429", "half-closes"])
def test_request_that_may_have_arrived_is_not_resent(vendor: Callable[..., Upstream], fault: str) -> None:
    server = vendor(upstream.FAULTS[fault][0])
    with suppress(RequestFailed):
        get(server.url)
    assert len(server.heads) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_read_on_a_reused_connection_is_not_resent(vendor: Callable[..., Upstream], method: str) -> None:
    server = vendor(says({}))
    request = Request(method, server.url, {}, b"{}")
    send(request)
    server.behave_as(upstream.resets)
    with pytest.raises(RequestFailed):
        send(request)
    assert (len(server.heads), server.connections) == (2, 1)


# --- What errors reveal ----------------------------------------------------------------------------------------------


def test_request_and_error_reveal_neither_key_number_nor_host() -> None:
    url = f"http://127.0.0.1:{free_port()}/12025550123/a-key-in-the-path"
    request = Request("GET", url, {"X-Key": "a-secret"}, b"12025550123")
    assert repr(request) == "Request(method='GET')"
    with pytest.raises(RequestFailed) as raised:
        send(request)
    assert str(raised.value) == "the server could not be reached"
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_hanging_dns_lookups_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the threads that uvloop and asyncio have for lookups."""
    release, real = Event(), socket.getaddrinfo

    def lookup(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "hanging.example":
            release.wait(30)
        return real("127.0.0.1", *arguments, **options)

    async def resolve() -> list[Any]:
        resolver = transport._Resolver()
        hanging = [asyncio.create_task(resolver.resolve("hanging.example")) for _ in range(40)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(resolver.resolve("other.example", 443), 20)
        finally:
            release.set()
            await asyncio.gather(*hanging)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert [found["host"] for found in loop.run(resolve())] == ["127.0.0.1"]
