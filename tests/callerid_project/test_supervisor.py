"""Workers that die are restarted while the others serve, and none outlives the main process."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
import requests

from callerid_project.supervisor import restart_pause_s
from tests import plugin
from tests.api import NUMBER
from tests.load import wait_for
from tests.reliability import LONG
from tests.servers import free_port
from tests.service import Service, serving

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

log = logging.getLogger(__name__)

Serve = Callable[..., Service]
#: For how long workers are killed, one every KILL_EVERY_S.
KILL_FOR_S = 300 if LONG else 12
KILL_EVERY_S = 2
CLIENTS, SEARCHES_A_SECOND = 5, 50
CREDITS = 100_000


def running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


class Client:
    """Searches from several threads until it is stopped, each search with its own request id."""

    def __init__(self, service: Service) -> None:
        made = json.loads(service.manage("create_token", "kill", "--credits", str(CREDITS), "--json"))
        self.service, self.id, self.key = service, made["id"], made["api_key"]
        self.answers: dict[str, int] = {}
        self.without_answer: set[str] = set()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._search_on) for _ in range(CLIENTS)]

    def __enter__(self) -> "Client":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _search_on(self) -> None:
        while not self._stop.wait(CLIENTS / SEARCHES_A_SECOND):
            request_id = f"kill-{uuid4()}"
            try:
                self.answers[request_id] = self.search(request_id).status_code
            except requests.RequestException:
                self.without_answer.add(request_id)

    def search(self, request_id: str) -> requests.Response:
        return requests.post(
            f"{self.service.url}/callerid/search",
            json={"api_key": self.key, "query": NUMBER},
            headers={"X-Request-ID": request_id},
            timeout=60,
        )

    def charged(self) -> tuple[list[str], int]:
        """The request ids of its ledger entries, and its balance."""
        script = (
            "import json; from accounts.models import *; "
            f"rows = CreditEntry.objects.filter(token={self.id}, kind='search'); "
            "ids = list(rows.values_list('request_id', flat=True)); "
            f"print(json.dumps([ids, ApiToken.objects.get(pk={self.id}).credits]))"
        )
        ids, balance = json.loads(self.service.manage("shell", "--no-imports", "-c", script))
        return ids, balance


def test_killed_workers_lose_no_charge_and_no_response(serve: Serve, postgres_url: str, redis_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL=redis_url, WORKERS="3", RATE_LIMIT="100000/m")
    end = time.monotonic() + KILL_FOR_S
    kills = 0
    with Client(service) as client:
        while time.monotonic() < end:
            next_kill = time.monotonic() + KILL_EVERY_S
            os.kill(random.choice(service.workers()), signal.SIGKILL)
            kills += 1
            before = len(client.answers)
            wait_for(lambda before=before: len(client.answers) > before + CLIENTS)  # type: ignore[misc]
            time.sleep(max(0.0, next_kill - time.monotonic()))
    answered = [request_id for request_id, status in client.answers.items() if status == 200]
    assert len(answered) == len(client.answers) > KILL_FOR_S
    charged, balance = client.charged()
    log.info(
        "%d kills, %d answers, %d without, %d debits", kills, len(answered), len(client.without_answer), len(charged)
    )
    assert len(charged) == len(set(charged)) == CREDITS - balance
    assert set(answered) <= set(charged) <= set(answered) | client.without_answer
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}
    assert service.stop() == 0


@pytest.mark.parametrize(("sent", "reason"), [(signal.SIGKILL, "signal 9"), (signal.SIGTERM, "status 0")])
def test_only_worker_that_exits_is_replaced(serve: Serve, sent: signal.Signals, reason: str) -> None:
    service = serve(WORKERS="1")
    [worker] = service.workers()
    os.kill(worker, sent)
    wait_for(lambda: f"worker 1 exited with {reason}; restarting " in service.log())
    wait_for(service.answers)
    assert service.stop() == 0


def listeners(service: Service) -> int:
    """How many workers accept connections: each has a listening socket of its own (proc(5), state 0A)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()]
    return sum(row[1].endswith(f":{service.port:04X}") and row[3] == "0A" for row in rows)


def pauses(service: Service) -> list[str]:
    return [line.rpartition("restarting ")[2] for line in service.log().splitlines() if " exited with " in line]


def kill_at_start(service: Service, known: list[int], sent: signal.Signals = signal.SIGSEGV) -> None:
    """Kill the worker that starts now, which is not in `known`, by `sent`, and add it to `known`.

    Returns once its death is logged."""
    wait_for(lambda: set(service.workers()) - set(known))
    [newcomer] = set(service.workers()) - set(known)
    before = len(pauses(service))
    os.kill(newcomer, sent)
    known.append(newcomer)
    wait_for(lambda: len(pauses(service)) > before)


def test_a_worker_crashing_at_start_does_not_affect_others(serve: Serve, redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2")
    wait_for(lambda: listeners(service) == 2)
    first, second = known = service.workers()
    os.kill(second, signal.SIGKILL)
    while "in 4 s" not in pauses(service):
        kill_at_start(service, known)
        assert requests.get(f"{service.url}/livez", timeout=30).status_code == 200
    assert pauses(service)[-3:] == ["in 1 s", "in 2 s", "in 4 s"]
    wait_for(lambda: len(service.workers()) == 2)
    assert first in service.workers()
    assert service.stop() == 0


def test_worker_killed_at_each_start_is_restarted_at_once(serve: Serve, redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2")
    known = service.workers()
    os.kill(known[0], signal.SIGKILL)
    for _ in range(3):
        kill_at_start(service, known, signal.SIGKILL)
    assert pauses(service) == ["now"] * 4
    wait_for(lambda: len(service.workers()) == 2)


def test_no_pause_grows_while_no_worker_is_up(serve: Serve) -> None:
    service = serve(WORKERS="1")
    known = service.workers()
    os.kill(known[0], signal.SIGKILL)
    for _ in range(3):
        kill_at_start(service, known)
    assert pauses(service)[1:] == ["in 1 s"] * 3
    wait_for(service.answers)


def test_pause_before_a_restart_grows_up_to_a_limit() -> None:
    assert [restart_pause_s(deaths, 30) for deaths in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_start_at_which_no_worker_comes_up_is_an_error(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "CALLERID_DATA_DIR": str(tmp_path),
        "SOURCE_A": "no.such.Source",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "WORKERS": "2",
        "PORT": str(free_port()),
    }
    done = subprocess.run(
        [sys.executable, "-m", "callerid_project.serve"],
        cwd=plugin.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "No worker could start; stopping" in done.stderr
    assert "Configuration error: SOURCE_A" in done.stderr


def test_no_worker_outlives_a_killed_main_process(serve: Serve, redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2")
    workers = service.workers()
    assert service.process is not None
    service.process.kill()
    wait_for(lambda: not any(map(running, workers)))


def test_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    with serving(tmp_path, {}, shared=tmp_path, module=("tests.fork_fails",)) as service:
        [worker] = service.workers()
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: set(service.workers()) - {worker})
        wait_for(service.answers)
        assert "worker 1 could not be started (Resource temporarily unavailable); restarting in " in service.log()
