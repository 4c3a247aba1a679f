"""The address that the server listens on."""

import resource
import socket
from collections.abc import Callable

import pytest
import requests

from callerid_project import serve as server
from tests.raw_http import Connection, request
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


def test_the_server_raises_its_limit_of_open_files(serve: Callable[..., Service]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        service = serve()
        assert service.process
        assert resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert f"may have {hard:,} open files" in service.doctor("Open files")["detail"]


def test_the_kernel_keeps_little_of_an_unread_response() -> None:
    with server.bind("127.0.0.1", 0) as bound, socket.socket() as client:
        bound.listen()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        client.connect(bound.getsockname())
        with bound.accept()[0] as accepted:
            accepted.setblocking(False)
            assert accepted.send(bytes(8 * 1024 * 1024)) < 2 * server.MAX_UNSENT_BYTES


def test_an_idle_connection_is_closed_after_keep_alive_s(serve: Callable[..., Service]) -> None:
    service = serve(KEEP_ALIVE_S="1")
    with Connection(service.port) as connection:
        assert connection.send(request("/livez")).read().status == 200
        assert connection.is_closed()
