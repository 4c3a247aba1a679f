"""A stopping service answers the requests on their way over idle connections, and ends without waiting for more."""

import errno
import http.client
import signal
import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.load import wait_for
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]


def refuses(service: Service) -> bool:
    """Whether the service's port is closed."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", service.port)) == errno.ECONNREFUSED


def test_stop_answers_one_more_request_of_a_connection(serve: Callable[..., Service]) -> None:
    service = serve()
    assert service.process is not None
    with (
        closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as used,
        closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as unused,
    ):
        used.request("GET", "/livez")
        used.getresponse().read()
        unused.connect()
        service.process.send_signal(signal.SIGTERM)
        wait_for(lambda: refuses(service))
        for connection in (used, unused):
            connection.request("GET", "/livez")
            last = connection.getresponse()
            assert (last.status, last.headers["Connection"]) == (200, "close")
    service.process.wait(30)


def test_stop_ends_connections_that_stay_idle(serve: Callable[..., Service]) -> None:
    service = serve(STOP_TIMEOUT_S="60")
    assert service.process is not None
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as idle:
        idle.request("GET", "/livez")
        idle.getresponse().read()
        assert idle.sock is not None
        service.process.send_signal(signal.SIGTERM)
        assert idle.sock.recv(1) == b""
        service.process.wait(30)
    assert "timeout graceful shutdown exceeded" not in service.log()
