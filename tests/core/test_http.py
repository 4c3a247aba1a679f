"""A session connects to allowed addresses alone, one connection at a time, and ends it when its time is over."""

import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core import http
from tests.upstream import Upstream, drips_headers, raw

Vendor = Callable[..., Upstream]


def test_no_connection_is_left_open(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[socket.socket] = []
    dup = socket.socket.dup

    def note(connected: socket.socket) -> socket.socket:
        noted.append(dup(connected))
        return noted[-1]

    monkeypatch.setattr(socket.socket, "dup", note)
    server = vendor(raw(b"body", headers="Connection: close\r\n"))
    with http.Session(server.url, "loopback", timeout_s=5) as session:
        for _ in range(3):
            with session.request("GET", server.url) as response:
                assert response.raw.read() == b"body"
            assert sum(each.fileno() != -1 for each in noted) <= 1
    assert len(noted) == 3
    assert all(each.fileno() == -1 for each in noted)


def test_certificates_that_are_gone_are_named(tmp_path: Path, settings: Any) -> None:
    settings.CA_BUNDLE = str(tmp_path / "gone.pem")
    with (
        http.Session("https://127.0.0.1:9/", "loopback", timeout_s=5) as session,
        pytest.raises(http.RequestFailed, match="CA_BUNDLE cannot be read"),
        session.request("GET", "https://127.0.0.1:9/"),
    ):
        pass


def test_headers_that_end_with_the_time_are_no_response(vendor: Vendor) -> None:
    server = vendor(drips_headers)
    with (
        http.Session(server.url, "loopback", timeout_s=0.3) as session,
        pytest.raises(http.RequestFailed, match=r"within 0\.3 s"),
        session.request("GET", server.url),
    ):
        pytest.fail("there is no response")


def resolve(monkeypatch: pytest.MonkeyPatch, *answers: Sequence[str]) -> list[str]:
    """DNS returns the addresses of each answer in turn for hooks.example.org, and then those of the last one; an empty
    answer is a failure. The names that were looked up."""
    names, real, left = [], socket.getaddrinfo, list(answers)

    def lookup(host: str, *arguments: Any, **options: Any) -> Any:
        if host != "hooks.example.org":
            return real(host, *arguments, **options)
        names.append(host)
        if not (found := left.pop(0) if len(left) > 1 else left[0]):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [entry for address in found for entry in real(address, *arguments, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return names


@pytest.mark.parametrize(
    "answers",
    [
        [[], ["127.0.0.1"]],  # the lookup of a check fails, that of the connection does not
        [["127.0.0.1"]],
        [["8.8.8.8", "127.0.0.1"]],
        [["8.8.8.8", "::ffff:127.0.0.1"]],
        [["0.0.0.0"]],
        [["::"]],
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_answer_of_dns_reaches_a_private_address(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, answers: list[list[str]], scheme: str
) -> None:
    server = vendor(raw(b"secret"))
    resolve(monkeypatch, *answers)
    url = f"{scheme}://hooks.example.org:{server.port}/"
    for _ in answers:
        with (
            http.Session(url, "public", timeout_s=5) as session,
            pytest.raises(http.RequestFailed),
            session.request("GET", url),
        ):
            pytest.fail("there is no response")
    assert (server.connections, server.heads) == (0, [])


def test_redirect_is_checked_when_it_is_connected_to(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = vendor(raw(b"secret"))
    moved = f"Location: http://hooks.example.org:{inside.port}/\r\n"
    server = vendor(raw(b"", status=302, headers=moved))
    resolve(monkeypatch, [], ["10.0.0.1"])
    for _ in range(2):
        with (
            http.Session(server.url, "loopback", timeout_s=5) as session,
            pytest.raises(http.RequestFailed),
            session.request("GET", server.url, allow_redirects=True),
        ):
            pytest.fail("there is no response")
    assert inside.connections == 0


def test_name_is_looked_up_once_for_a_connection(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    server = vendor(raw(b"body"))
    names = resolve(monkeypatch, ["::1", "127.0.0.1"])  # nothing listens on the first one
    url = f"http://hooks.example.org:{server.port}/"
    with http.Session(url, "loopback", timeout_s=5) as session, session.request("GET", url) as response:
        assert response.raw.read() == b"body"
    assert names == ["hooks.example.org"]
    assert f"host: hooks.example.org:{server.port}".encode() in server.heads[0].lower()


@pytest.mark.parametrize("hangs", [False, True])
def test_time_that_ends_during_the_lookup_ends_the_request(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    server, real, is_over = vendor(drips_headers), socket.getaddrinfo, threading.Event()

    def late(*arguments: Any, **options: Any) -> Any:
        for timer in (thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)):
            timer.join()
        if hangs and not is_over.wait(30):
            raise AssertionError("the request waits for the lookup")
        return real(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", late)
    with (
        http.Session(server.url, "loopback", timeout_s=0.3) as session,
        pytest.raises(http.RequestFailed, match=r"within 0\.3 s"),
        session.request("GET", server.url),
    ):
        pytest.fail("there is no response")
    is_over.set()
    assert server.heads == []
