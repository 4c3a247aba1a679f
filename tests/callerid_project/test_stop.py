"""An instance that is stopped fails no request that it has accepted; each answer of one that is killed is one debit."""

import errno
import itertools
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests import plugin
from tests.api import NUMBER
from tests.load import Load, create_tokens, wait_for
from tests.mock_vendors import KEYS, PRESETS
from tests.raw_http import Connection, request
from tests.reliability import LONG
from tests.service import Service
from tests.upstream import Upstream, held, says

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

log = logging.getLogger(__name__)

Serve = Callable[..., Service]
#: How often an instance is stopped under load, or killed.
STOPS = 20 if LONG else 2
CLIENTS, SEARCHES_A_SECOND, CREDITS = 5, 50, 100_000


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


class Client:
    """Searches on two instances from several threads until it is stopped, each search with its own request id."""

    def __init__(self, instances: list[Service]) -> None:
        self.instances = instances
        made = json.loads(instances[0].manage("create_token", "kill", "--credits", str(CREDITS), "--json"))
        self.id, self.key = made["id"], made["api_key"]
        self.answers: dict[str, int] = {}
        self.without_answer: set[str] = set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._search_on, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> "Client":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _search_on(self, thread: int) -> None:
        for number in itertools.count(thread):
            if self._stop.wait(CLIENTS / SEARCHES_A_SECOND):
                break
            request_id = f"kill-{thread}-{number}"
            try:
                self.answers[request_id] = requests.post(
                    f"{self.instances[number % len(self.instances)].url}/callerid/search",
                    json={"api_key": self.key, "query": NUMBER},
                    headers={"X-Request-ID": request_id},
                    timeout=60,
                ).status_code
            except requests.RequestException:
                self.without_answer.add(request_id)

    def charged(self) -> tuple[list[str], int]:
        """The request ids of its ledger entries, and its balance."""
        script = (
            "import json; from accounts.models import *; "
            f"rows = CreditEntry.objects.filter(token={self.id}, kind='search'); "
            "ids = list(rows.values_list('request_id', flat=True)); "
            f"print(json.dumps([ids, ApiToken.objects.get(pk={self.id}).credits]))"
        )
        ids, balance = json.loads(self.instances[0].manage("shell", "--no-imports", "-c", script))
        return ids, balance


def test_killed_instances_lose_no_charge_and_no_response(serve: Serve, postgres_url: str, redis_url: str) -> None:
    keys = plugin.generated_keys()
    shared = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "RATE_LIMIT": "1000000/m", **keys}
    instances = [serve(**shared) for _ in range(2)]
    with Client(instances) as client:
        for kill in range(2 * STOPS):
            killed = instances[kill % 2]
            before = len(client.answers)
            wait_for(lambda before=before: len(client.answers) > before + 10 * CLIENTS)  # type: ignore[misc]
            assert killed.process is not None
            os.kill(killed.process.pid, signal.SIGKILL)
            killed.process.wait()
            killed.start()  # as its init system does
    answered = [request_id for request_id, status in client.answers.items() if status == 200]
    assert len(answered) == len(client.answers)
    charged, balance = client.charged()
    log.info("%d kills, %d answers, %d without", 2 * STOPS, len(answered), len(client.without_answer))
    assert len(charged) == len(set(charged)) == CREDITS - balance
    assert set(answered) <= set(charged) <= set(answered) | client.without_answer
    assert json.loads(instances[0].manage("audit_credits", "--json")) == {"disagreements": []}


def test_nothing_of_a_killed_instance_remains(serve: Serve) -> None:
    """It has no second process, and its port can be used at once."""
    service = serve()
    assert service.process is not None
    pid = service.process.pid
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii") == ""
    with Connection(service.port) as kept:
        kept.send(request("/livez")).read()
        os.kill(pid, signal.SIGKILL)
        service.process.wait()
        service.start()
