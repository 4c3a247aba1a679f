"""SIGTERM and SIGHUP lose no request, and a reload that fails leaves the present workers alone."""

import errno
import http.client
import os
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import requests

from tests.api import NUMBER
from tests.load import Load, wait_for
from tests.plugin import ROOT
from tests.reliability import LONG
from tests.service import Service, serving

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
RELOADS = 20 if LONG else 3
LONG_S = "600"


def reload(service: Service) -> None:
    """Replace the workers, and return when the last new one has taken over."""
    before = service.log().count("reload: finished")
    send(service, signal.SIGHUP)
    wait_for(lambda: service.log().count("reload: finished") > before)


def send(service: Service, sent: signal.Signals) -> None:
    assert service.process is not None
    service.process.send_signal(sent)


def ready(service: Service) -> requests.Response:
    return requests.get(f"{service.url}/readyz", timeout=30)


def refuses(service: Service) -> bool:
    """Whether the service's port is closed."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", service.port)) == errno.ECONNREFUSED


def test_stop_under_load_fails_no_request(serve: Serve, redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2", RATE_LIMIT="1000000/m", DRAIN_S="2")
    with Load(service, keep_alive=4, new=2, rate=600) as load:
        load.more(50)
        send(service, signal.SIGTERM)
        wait_for(lambda: ready(service).status_code == 503)
        load.more(20)  # as a load balancer, which sends requests elsewhere after some health checks
    assert service.stop() == 0
    assert load.failures() == []
    assert load.debits() == len(load.answers)
    assert "killing it" not in service.log()


def test_second_signal_ends_the_wait_of_a_stop(serve: Serve) -> None:
    service = serve(DRAIN_S=LONG_S)
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)) as kept:
        kept.request("GET", "/livez")
        kept.getresponse().read()
        assert kept.sock is not None
        send(service, signal.SIGTERM)
        wait_for(lambda: ready(service).json() == {"detail": "The service is stopping"})
        kept.request("GET", "/livez")
        last = kept.getresponse()
        assert (last.status, last.headers["Connection"]) == (200, "close")
    assert service.stop() == 0


class Uploading:
    """A request whose body arrives when the test says so: it is in progress until then."""

    def __init__(self, service: Service) -> None:
        key = service.manage("create_token", "upload", "--credits", "1", "--quiet").strip()
        self._body = f'{{"api_key": "{key}", "query": "{NUMBER}"}}'.encode()
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
        self._connection.putrequest("POST", "/callerid/search")
        self._connection.putheader("Content-Type", "application/json")
        self._connection.putheader("Content-Length", str(len(self._body)))
        self._connection.endheaders(self._body[:1])

    def finish(self) -> int:
        with closing(self._connection) as connection:
            connection.send(self._body[1:])
            return connection.getresponse().status


def test_requests_in_progress_have_time_to_finish(serve: Serve) -> None:
    service = serve(STOP_TIMEOUT_S="3")
    finished, endless = Uploading(service), Uploading(service)
    service.answers()  # both were accepted before this connection
    send(service, signal.SIGTERM)
    wait_for(lambda: refuses(service))
    assert finished.finish() == 200
    assert service.stop() == 0
    assert "worker 1 had requests in progress after 3 s; killing it" in service.log()
    with pytest.raises((OSError, http.client.HTTPException)):
        endless.finish()
    assert service.log().count("killing it") == 1


def test_reloads_under_load_fail_no_request(serve: Serve, redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2", RATE_LIMIT="1000000/m", DRAIN_S="1")
    before = service.workers()
    with Load(service, keep_alive=2, new=4) as load:
        for _ in range(RELOADS):
            reload(service)
        load.more(100)
    assert not set(before) & set(service.workers())
    assert load.failures() == []
    assert load.debits() == len(load.answers) > 300 * RELOADS
    assert service.stop() == 0


def test_replaced_worker_accepts_no_connection(serve: Serve) -> None:
    """Otherwise it would close one that has just connected."""
    service = serve(DRAIN_S=LONG_S)
    [old] = service.workers()
    with requests.Session() as kept:
        kept.get(f"{service.url}/livez", timeout=30)
        reload(service)
        assert old in service.workers()
        answers = [requests.get(f"{service.url}/readyz", timeout=30) for _ in range(20)]
        assert {(answer.status_code, answer.headers.get("Connection")) for answer in answers} == {(200, None)}
        last = kept.get(f"{service.url}/readyz", timeout=30)
        assert (last.status_code, last.headers["Connection"]) == (200, "close")
    send(service, signal.SIGINT)  # Ctrl-C does not wait
    assert service.process is not None
    assert service.process.wait(30) == 0


def test_failed_reload_leaves_the_workers_alone(serve: Serve, tmp_path: Path) -> None:
    preset = Path(shutil.copy(ROOT / "tests" / "presets" / "mock_a.toml", tmp_path))
    good = preset.read_text(encoding="utf-8")
    service = serve(SOURCE_A="mock_a", MOCK_A_KEY="k", PRESET_DIR=str(tmp_path), DRAIN_S=LONG_S)
    [worker] = service.workers()
    preset.write_text("this is no preset", encoding="utf-8")
    send(service, signal.SIGHUP)
    failed = "reload: failed, and the present workers go on: worker 1 exited with status 1 at its start"
    wait_for(lambda: failed in service.log())
    assert service.workers() == [worker]
    assert service.answers()
    preset.write_text(good, encoding="utf-8")
    reload(service)
    [replaced, new] = service.workers()
    assert replaced == worker
    # A stop does not wait for a reload: not for the new worker, whose start is held up here.
    send(service, signal.SIGHUP)
    wait_for(lambda: len(service.workers()) == 3)
    os.kill(service.workers()[2], signal.SIGSTOP)
    send(service, signal.SIGINT)
    os.kill(new, 0)
    assert service.process is not None
    assert service.process.wait(30) == 0


def test_reload_gives_up_on_a_worker_that_does_not_start(tmp_path: Path) -> None:
    with serving(tmp_path, {}, shared=tmp_path, module=("tests.fork_fails",)) as service:
        [worker] = service.workers()
        send(service, signal.SIGHUP)
        wait_for(lambda: "worker 1 could not be started (Resource temporarily unavailable)" in service.log())
        send(service, signal.SIGHUP)
        wait_for(lambda: len(service.workers()) == 2)
        os.kill(service.workers()[1], signal.SIGSTOP)
        wait_for(lambda: "worker 1 was not up after 6 s" in service.log())
        wait_for(lambda: service.workers() == [worker])
        assert service.answers()
        # If the old worker dies meanwhile, the reload is finished too.
        send(service, signal.SIGHUP)
        wait_for(lambda: len(service.workers()) == 2)
        new = service.workers()[1]
        os.kill(new, signal.SIGSTOP)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: "reload: finished" in service.log())
        os.kill(new, signal.SIGCONT)
        assert service.answers()
        assert service.workers() == [new]
        assert service.stop() == 0
