"""How long a call lives, what is sent again, and what of it is seen elsewhere."""

import socket
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from urllib3.util.connection import create_connection

from lookup.connectors import transport
from lookup.connectors.transport import BadReply, NoReply, Request
from tests import upstream
from tests.lookup.connectors.calls import clients, get, names_lead_to, send
from tests.lookup.connectors.searches import until
from tests.servers import free_port
from tests.upstream import Behaviour, Conversation, Upstream, raw, says

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _new_clients() -> None:
    clients.clear()


def test_a_connection_is_kept_and_used_again(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({"a": 1}))
    replies = [get(server.url + "/x") for _ in range(3)]
    assert [(reply.status, reply.body) for reply in replies] == [(200, b'{"a": 1}')] * 3
    assert server.connections == 1


def test_a_redirect_is_not_followed_and_its_target_hears_nothing(vendor: Callable[..., Upstream]) -> None:
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


def test_cookies_are_not_kept(vendor: Callable[..., Upstream]) -> None:
    server = vendor(raw(b"{}", 200, "Set-Cookie: track=me\r\n"))
    get(server.url)
    get(server.url)
    assert not any(b"Cookie" in head for head in server.heads)


def test_a_body_is_read_up_to_the_limit(vendor: Callable[..., Upstream]) -> None:
    assert len(get(vendor(raw(b"x" * 1000)).url).body) == 1000
    for too_large in (raw(b"x" * 1001), upstream.endless, raw(upstream.BOMB, 200, "Content-Encoding: gzip\r\n")):
        with pytest.raises(BadReply, match="larger than 1000 bytes"):
            get(vendor(too_large).url)


@pytest.mark.parametrize("status", [200, 301])
def test_a_bomb_is_not_unpacked(vendor: Callable[..., Upstream], status: int) -> None:
    headers = "Content-Encoding: gzip\r\nLocation: /elsewhere\r\n"
    server = vendor(raw(upstream.BOMB, status, headers))
    tracemalloc.start()
    with suppress(BadReply):
        get(server.url)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * 2**20


@pytest.mark.parametrize(
    "behave",
    [
        upstream.hangs,
        upstream.hangs_after_headers,
        upstream.drips_headers,
        upstream.drips_body,
        upstream.drips_and_closes,
        upstream.drips_http_1_0,
    ],
    ids=["hangs", "hangs after headers", "drips headers", "drips its body", "drips and closes", "drips HTTP/1.0"],
)
def test_a_call_ends_after_its_lifetime_whatever_drips(vendor: Callable[..., Upstream], behave: Behaviour) -> None:
    server = vendor(behave)
    with pytest.raises(NoReply, match=r"not done after 0\.2 s"):
        get(server.url, lifetime_s=0.2)


def test_a_kept_connection_that_drips_is_ended_too(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({}))
    get(server.url)
    server.repair(upstream.drips_body)
    with pytest.raises(NoReply, match=r"not done after 0\.2 s"):
        get(server.url, lifetime_s=0.2)
    server.repair(says({}))
    assert get(server.url).status == 200  # and the next call has a connection of its own


def test_a_tls_handshake_that_never_ends_is_ended(vendor: Callable[..., Upstream]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NoReply, match=r"not done after 0\.2 s"):
        get(f"https://127.0.0.1:{silent.getsockname()[1]}", lifetime_s=0.2)


def test_a_call_that_is_done_is_not_ended(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({}))
    get(server.url, lifetime_s=0.5)
    time.sleep(0.6)
    assert get(server.url).status == 200
    assert server.connections == 1


# --- Retries --------------------------------------------------------------------------------------------------------


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The addresses that were connected to."""
    attempts: list[object] = []
    connect = create_connection

    def counted(address: Any, *arguments: Any, **options: Any) -> socket.socket:
        attempts.append(address)
        return connect(address, *arguments, **options)

    monkeypatch.setattr(transport, "create_connection", counted)
    return attempts


def test_a_refused_connection_is_tried_once_more(connections: list[object]) -> None:
    with pytest.raises(NoReply, match="could not be reached"):
        get(f"http://127.0.0.1:{free_port()}")
    assert len(connections) == 2


def test_a_host_with_an_address_that_is_down_is_reached_by_the_next(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = vendor(says({}))
    names_lead_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    assert get(f"http://vendor.example.com:{server.port}").status == 200


def test_addresses_that_do_not_answer_share_the_lifetime_of_the_call(
    monkeypatch: pytest.MonkeyPatch, connections: list[object]
) -> None:
    monkeypatch.setattr(transport, "CONNECT_TIMEOUT_S", 0.2)
    names_lead_to(monkeypatch, *(f"127.0.0.{n}" for n in range(1, 9)))
    with socket.socket() as full, ExitStack() as opened:
        full.bind(("0.0.0.0", 0))
        full.listen(0)  # and nobody accepts: what does not fit is dropped without a word
        port = full.getsockname()[1]
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        with pytest.raises(NoReply):
            get(f"http://vendor.example.com:{port}", lifetime_s=0.3)
    assert len(connections) == 2


def test_no_second_attempt_begins_after_the_deadline(connections: list[object]) -> None:
    with pytest.raises(NoReply):
        get(f"http://127.0.0.1:{free_port()}", retry_within_s=0)
    assert len(connections) == 1


def test_a_kept_connection_that_the_vendor_closed_meanwhile_costs_nothing(vendor: Callable[..., Upstream]) -> None:
    server = vendor(lambda conversation: bool(says({})(conversation)) and False)  # closes after each answer
    for _ in range(3):
        assert get(server.url).status == 200
        while server.open_connections:
            time.sleep(0.005)
    assert (len(server.heads), server.connections) == (3, 3)


def test_what_a_vendor_has_read_on_a_kept_connection_is_not_sent_again(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({}))
    get(server.url)
    server.repair(upstream.resets)
    with pytest.raises(NoReply):
        get(server.url)
    assert len(server.heads) == 2


def test_after_a_call_without_a_reply_every_thread_has_new_connections(vendor: Callable[..., Upstream]) -> None:
    """What fails over without a word leaves dead connections, one in each thread: each would fail a probe."""
    server = vendor(says({}))
    get(server.url)
    other = Thread(target=get, args=[server.url])
    other.start()
    other.join(10)
    assert server.connections == 2
    server.repair(upstream.hangs)
    lost = Thread(target=_lost, args=[server.url])
    lost.start()
    lost.join(10)
    server.repair(says({}))
    assert get(server.url).status == 200
    assert server.connections == 4  # of the lost call, and of this thread's next


def _lost(url: str) -> None:
    with suppress(NoReply):
        get(url, lifetime_s=0.1)


def test_a_connection_that_was_idle_for_long_is_made_anew(
    vendor: Callable[..., Upstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = vendor(says({}))
    get(server.url)
    monkeypatch.setattr(transport, "IDLE_S", 0)
    get(server.url)
    assert server.connections == 2


@pytest.mark.parametrize("fault", ["resets", "stops short", "500", "503", "429", "half-closes"])
def test_what_may_have_been_asked_is_not_asked_again(vendor: Callable[..., Upstream], fault: str) -> None:
    server = vendor(upstream.FAULTS[fault][0])
    with suppress(NoReply):
        get(server.url)
    assert len(server.heads) == 1


def test_a_post_is_never_sent_twice(vendor: Callable[..., Upstream]) -> None:
    def closes_at_the_second(conversation: Conversation) -> bool:
        return len(server.heads) < 2 and says({})(conversation)

    server = vendor(closes_at_the_second)
    post = Request("POST", server.url, {}, json={})
    send(post)
    with pytest.raises(NoReply):
        send(post)
    assert len(server.heads) == 2


# --- What is seen ---------------------------------------------------------------------------------------------------


def test_neither_a_request_nor_an_error_shows_key_number_or_host() -> None:
    url = f"http://127.0.0.1:{free_port()}/12025550123/a-key-in-the-path"
    request = Request("GET", url, {"X-Key": "a-secret"}, basic=("user", "password"))
    assert repr(request) == "Request(method='GET')"
    with pytest.raises(NoReply) as raised:
        send(request)
    assert str(raised.value) == "it could not be reached"
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_each_thread_has_a_session_of_its_own(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says({}))
    threads = [Thread(target=lambda: [get(server.url) for _ in range(3)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (len(server.heads), server.connections) == (9, 3)


def test_a_call_that_is_not_done_in_time_is_ended_and_those_that_are_done_are_forgotten() -> None:
    reaper = transport._Reaper()
    calls = [transport._Call("public", time.monotonic() + ends_in_s) for ends_in_s in (0.1, 0.2, 3600)]
    calls[0].done()
    calls[2].done()
    for call in calls:
        reaper.watch(call)
    until(lambda: calls[1].ended and not reaper._calls)
    assert [call.ended for call in calls] == [False, True, False]
