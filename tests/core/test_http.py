"""A session reuses its connection, and ends it when its time is over."""

import time
from collections.abc import Callable

import pytest

from core import http
from tests.upstream import Upstream, drips_headers, raw

Vendor = Callable[..., Upstream]


def test_no_connection_is_left_open(vendor: Vendor) -> None:
    server = vendor(raw(b"body"))
    with http.Session(server.url, "loopback", timeout_s=5) as session:
        for _ in range(3):
            with session.request("GET", server.url) as response:
                assert b"".join(response.chunks) == b"body"
    assert server.connections == 1
    while server.open_connections:
        time.sleep(0.005)


def test_headers_that_end_with_the_time_are_no_response(vendor: Vendor) -> None:
    server = vendor(drips_headers)
    with (
        http.Session(server.url, "loopback", timeout_s=0.3) as session,
        pytest.raises(http.RequestFailed, match=r"within 0\.3 s"),
        session.request("GET", server.url),
    ):
        pytest.fail("there is no response")
