"""The address that the server listens on."""

import socket
from collections.abc import Callable

import pytest
import requests

from callerid_project import serve as server
from tests.servers import Unavailable, required
from tests.service import Service

pytestmark = pytest.mark.once


def test_one_value_of_host_serves_both_families(serve: Callable[..., Service]) -> None:
    with required():
        if not socket.has_dualstack_ipv6():
            raise Unavailable("there is no IPv6")
    service = serve(HOST="::")
    for address in ("127.0.0.1", "[::1]"):
        for path in ("livez", "metrics"):  # METRICS_NETWORKS has both
            assert requests.get(f"http://{address}:{service.port}/{path}", timeout=30).status_code == 200, address


@pytest.mark.parametrize(
    ("host", "dual", "family", "address"),
    [
        ("::", True, socket.AF_INET6, "::"),
        ("[::]", True, socket.AF_INET6, "::"),
        ("::", False, socket.AF_INET, "0.0.0.0"),  # a kernel without IPv6 (ipv6.disable=1)
        ("0.0.0.0", True, socket.AF_INET, "0.0.0.0"),
        ("[::1]", True, socket.AF_INET6, "::1"),
        ("localhost", True, socket.AF_INET, "127.0.0.1"),
    ],
)
def test_host_is_bound_as_it_is_meant(
    monkeypatch: pytest.MonkeyPatch, host: str, dual: bool, family: socket.AddressFamily, address: str
) -> None:
    with required():
        if not socket.has_dualstack_ipv6():
            raise Unavailable("there is no IPv6")
    monkeypatch.setattr("socket.has_dualstack_ipv6", lambda: dual)
    with server.bind(host, 0) as bound:
        assert (bound.family, bound.getsockname()[0]) == (family, address)
