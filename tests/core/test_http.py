"""A session has one connection at a time, and ends it when its time is over."""

import socket
from collections.abc import Callable

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


def test_headers_that_end_with_the_time_are_no_response(vendor: Vendor) -> None:
    server = vendor(drips_headers)
    with (
        http.Session(server.url, "loopback", timeout_s=0.3) as session,
        pytest.raises(http.RequestFailed, match=r"within 0\.3 s"),
        session.request("GET", server.url),
    ):
        pytest.fail("there is no response")
