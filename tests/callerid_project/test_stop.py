"""An instance that is stopped fails no request that it has accepted."""

import errno
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tests import plugin
from tests.api import NUMBER
from tests.load import Load, create_tokens, wait_for
from tests.mock_vendors import KEYS, PRESETS
from tests.raw_http import Connection, request
from tests.reliability import LONG
from tests.service import Service
from tests.upstream import Upstream, held, says

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
#: How often an instance is stopped under load.
STOPS = 20 if LONG else 2


def send(service: Service, sent: signal.Signals) -> None:
    assert service.process is not None
    service.process.send_signal(sent)


def refuses(service: Service) -> bool:
    """Whether the service's port is closed."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", service.port)) == errno.ECONNREFUSED


def sent_search(service: Service) -> bytes:
    (key,) = create_tokens(service, 1)
    return request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode())


def test_stop_under_load_fails_no_request(serve: Serve) -> None:
    """What it has not accepted, a load balancer sends elsewhere: nothing of that was charged."""
    service = serve(RATE_LIMIT="1000000/m")
    answered = 0
    for _ in range(STOPS):
        with Load(service, keep_alive=4, new=2, rate=600) as load:
            load.more(50)
            assert service.stop() == 0
        assert set(load.statuses()) == {200, 0}
        errors = {answer.error.partition(":")[0] for answer in load.failures()}
        assert errors <= {"ConnectionRefusedError", "RemoteDisconnected", "ConnectionResetError", "BrokenPipeError"}
        answered += load.statuses()[200]
        assert load.debits() == answered
        service.start()


def test_requests_in_progress_have_time_to_finish(serve: Serve, vendor: Callable[..., Upstream]) -> None:
    arrived, answer = threading.Barrier(2), threading.Event()
    upstream = vendor(held(answer, says({"name": "Example Bakery"}), arrived))
    service = serve(**mock_a(upstream), STOP_TIMEOUT_S="30")
    sent = sent_search(service)
    with Connection(service.port) as searching, Connection(service.port) as uploading, Connection(service.port) as idle:
        assert idle.send(request("/livez")).read().status == 200
        searching.send(sent)
        arrived.wait(60)
        uploading.send(sent[:-1])
        assert service.answers()  # both were accepted before this connection
        send(service, signal.SIGTERM)
        wait_for(lambda: refuses(service))
        assert idle.is_closed()
        answer.set()
        uploading.send(sent[-1:])
        for connection in (searching, uploading):
            last = connection.read()
            assert (last.status, last.headers["connection"]) == (200, "close")
            assert connection.is_closed()
    assert service.stop() == 0
    assert "timeout graceful shutdown exceeded" not in service.log()


def test_stop_answers_one_more_request_of_a_connection(serve: Serve) -> None:
    service = serve()
    with Connection(service.port) as used, Connection(service.port) as unused:
        used.send(request("/livez")).read()
        assert service.answers()  # both were accepted before this connection
        send(service, signal.SIGTERM)
        wait_for(lambda: refuses(service))
        for connection in (used, unused):
            last = connection.send(request("/livez")).read()
            assert (last.status, last.headers["connection"]) == (200, "close")
    assert service.stop() == 0


def mock_a(upstream: Upstream) -> dict[str, str]:
    environment = {"PRESET_DIR": str(PRESETS), "SOURCE_A": "mock_a", "MOCK_A_BASE_URL": upstream.url}
    return {**environment, "SEARCH_DEADLINE_S": "20", "CALL_LIFETIME_S": "60", **KEYS}


def test_a_stop_ends_what_takes_too_long(serve: Serve, vendor: Callable[..., Upstream]) -> None:
    arrived, answer = threading.Barrier(2), threading.Event()
    service = serve(**mock_a(vendor(held(answer, says({}), arrived))), STOP_TIMEOUT_S="1", BODY_TIMEOUT_S="60")
    sent = sent_search(service)
    with Connection(service.port) as searching, Connection(service.port) as uploading:
        searching.send(sent)
        arrived.wait(60)
        uploading.send(sent[:-1])
        assert service.answers()
        assert service.stop() == 0
        for connection, status, detail in (
            (searching, 500, "Internal server error"),
            (uploading, 400, "Malformed JSON body"),
        ):
            last = connection.read()
            assert (last.status, last.json()) == (status, {"detail": detail})
    answer.set()
    (token,) = json.loads(service.manage("list_tokens", "--json"))
    assert token["credits"] == 10_000
    assert "Traceback" not in service.log()


def test_ctrl_c_ends_it_in_order_too(serve: Serve) -> None:
    service = serve()
    send(service, signal.SIGINT)
    assert service.process is not None
    assert service.process.wait(30) == 0
    assert "Traceback" not in service.log()


def test_it_can_be_stopped_while_it_starts(serve: Serve) -> None:
    service = serve()
    service.stop()
    for delay_s in (0.0, 0.2, 0.5, 1.0):
        process = start_another(service, service.port)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGTERM)  # the latter before our first line


def start_another(service: Service, port: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "callerid_project.serve"],
        cwd=plugin.ROOT,
        env={**service.env, "PORT": str(port)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_second_instance_on_the_port_is_refused(serve: Serve) -> None:
    service = serve()
    second = start_another(service, service.port)
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (1, "")
    assert err.startswith(f"Port {service.port} is in use: ")
    assert len(err.splitlines()) == 1
    assert service.answers()


def test_configuration_error_is_one_sentence(serve: Serve) -> None:
    service = serve()
    service.stop()
    service.env["SOURCE_A"] = "no.such.Source"
    process = start_another(service, service.port)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("Configuration error: SOURCE_A: ")
    assert len(err.splitlines()) == 1
