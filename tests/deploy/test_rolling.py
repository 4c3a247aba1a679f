"""Two hosts behind nginx are killed, and restarted by rolling.sh."""

import itertools
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest
import urllib3

from tests import plugin
from tests.deploy.installation import NAME, PORT, Installation
from tests.reliability import LONG
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

log = logging.getLogger(__name__)
NUMBER = "493023125042"
ROLLING = str(plugin.ROOT / "deploy" / "rolling.sh")


def assert_charged_once(installed: Installation) -> None:
    assert json.loads(installed.commands.manage("audit_credits", "--json")) == {"disagreements": []}
    repeated = "SELECT request_id FROM accounts_creditentry WHERE kind = 'search' GROUP BY 1 HAVING count(*) > 1"
    assert installed.rows(repeated) == []


def test_only_a_search_with_a_key_goes_to_another_host(installed: Installation, key: str) -> None:
    """The first host stops with requests that were sent to it, and is killed."""
    victim, client = installed.hosts[0], installed.client()
    with_key, without = [f"key-{n}" for n in range(8)], [f"plain-{n}" for n in range(8)]
    victim.signal(signal.SIGSTOP)
    with ThreadPoolExecutor(16) as callers:
        sent = {
            name: callers.submit(
                installed.search,
                key,
                NUMBER,
                client,
                X_Request_ID=name,
                **({"Idempotency_Key": name} if name in with_key else {}),
            )
            for pair in zip(with_key, without, strict=True)
            for name in pair
        }
        wait(sent.values(), timeout=60, return_when=FIRST_COMPLETED)
        answered, stuck = wait(sent.values(), timeout=0.5)  # well within proxy_next_upstream_timeout
        assert answered
        assert {name.partition("-")[0] for name, future in sent.items() if future in stuck} == {"key", "plain"}
        victim.signal(signal.SIGKILL)
    statuses = {name: future.result().status for name, future in sent.items()}
    failed = [name for name, status in statuses.items() if status != 200]
    assert failed
    assert set(failed) <= set(without)
    other = installed.hosts[1].address
    for name, future in sent.items():
        logged = installed.nginx.log_until(name)[-1]
        upstream = logged["upstream"]
        assert logged["method"] == "POST"
        if name in failed:
            assert upstream == f"{victim.address}:{PORT}"  # and to no other after it
            assert (future.result().status, future.result().json()) == (502, {"detail": "Service unavailable"})
            assert future.result().headers["X-Request-ID"] == name
        elif future in stuck:
            assert upstream == f"{victim.address}:{PORT}, {other}:{PORT}"
    # Until the host is back, the other one has all requests: connections to the first are refused.
    assert [installed.search(key, NUMBER, client).status for _ in range(5)] == [200] * 5
    for name in with_key:
        answer = installed.search(key, NUMBER, client, Idempotency_Key=name)
        assert (answer.status, answer.headers.get("Idempotent-Replayed")) == (200, "true")
    assert_charged_once(installed)


def test_kills_cost_a_request_each_and_no_debit_twice(installed: Installation, key: str) -> None:
    """One of two instances is killed every 2 s, when both answer, and started again as its systemd unit does.

    One caller has no key, so that at most one such request is in progress at a kill. One with a key fails only if the
    host that got it then is killed too, while it waits for the claim of the first.
    """
    client, done, kills = installed.client(), threading.Event(), 0
    statuses: dict[str, int] = {}

    def call(caller: str) -> None:
        for n in itertools.count():
            if done.wait(0.05):
                return
            name = f"{caller}-{n}"
            headers = {"Idempotency_Key": name} if caller.startswith("kept") else {}
            try:
                statuses[name] = installed.search(key, NUMBER, client, X_Request_ID=name, **headers).status
            except urllib3.exceptions.ProtocolError:  # killed within the response
                statuses[name] = 0

    with ThreadPoolExecutor(4) as callers:
        running = [callers.submit(call, caller) for caller in ("kept-a", "kept-b", "kept-c", "lone")]
        try:
            deadline = time.monotonic() + (300 if LONG else 20)
            for victim in itertools.cycle(installed.hosts):
                for host in installed.hosts:
                    host.wait_until_it_answers()
                victim.signal(signal.SIGKILL)
                kills += 1
                if done.wait(2) or time.monotonic() > deadline:
                    break
        finally:
            done.set()
        for each in running:
            each.result()
    for host in installed.hosts:
        host.wait_until_it_answers()
    failed = [name for name, status in statuses.items() if status != 200]
    log.info("%d kills, %d searches, without an answer: %s", kills, len(statuses), failed)
    assert kills > 2
    assert {statuses[name] for name in failed} <= {502, 0}
    assert len(failed) <= kills
    debited = Counter(
        request_id
        for (request_id,) in installed.rows("SELECT request_id FROM accounts_creditentry WHERE kind = 'search'")
    )
    assert {name: debited[name] for name in statuses if name not in failed and debited[name] != 1} == {}
    for name in (name for name in statuses if name.startswith("kept")):
        answer = installed.search(key, NUMBER, client, X_Request_ID=name, Idempotency_Key=name)
        assert answer.status == 200
        assert name in failed or answer.headers["Idempotent-Replayed"] == "true"
    kept = "SELECT count(*) FROM accounts_creditentry WHERE kind = 'search' AND request_id LIKE 'kept-%'"
    assert installed.rows(kept) == [(len([name for name in statuses if name.startswith("kept")]),)]
    assert_charged_once(installed)


RESTART = """#!/bin/sh
# What `systemctl restart` does: ends the main process, waits for its end, and starts another one.
main=$(cat "$DIRECTORY/$1/pid")
kill -TERM "$main"
tail --pid="$main" -f /dev/null
"""


def test_only_instances_of_other_hosts_are_restarted_by_ssh(tmp_path: Path) -> None:
    """The programs that rolling.sh calls write down their arguments."""
    for program in ("curl", "systemctl", "ssh"):
        (tmp_path / program).write_text(f'#!/bin/sh\n[ {program} = curl ] || echo {program} "$@" >>"$CALLS"\n')
    (tmp_path / "hostname").write_text("#!/bin/sh\necho 10.0.0.11 fd00::11\n")
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    calls = tmp_path / "calls"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}
    instances = ["127.0.0.1:8001", "10.0.0.11:8002", "[fd00::11]:8000", "10.0.0.1:8001", "[fd00::12]:8002"]
    subprocess.run([ROLLING, NAME, *instances], env=environment, capture_output=True, check=True)
    assert calls.read_text().splitlines() == [
        "systemctl restart callerid@8001",
        "systemctl restart callerid@8002",
        "systemctl restart callerid@8000",
        "ssh -o BatchMode=yes 10.0.0.1 systemctl restart callerid@8001",
        "ssh -o BatchMode=yes fd00::12 systemctl restart callerid@8002",
    ]


def test_no_request_fails_during_a_rolling_restart(installed: Installation, key: str, tmp_path: Path) -> None:
    for host in installed.hosts:
        (tmp_path / host.address).symlink_to(host.pid_file.parent)
        host.wait_until_it_answers()
    restart = tmp_path / "restart"
    restart.write_text(RESTART)
    restart.chmod(0o755)
    before = [host.main_pid() for host in installed.hosts]
    done, sent, client = threading.Event(), [], installed.client()

    def load(callers: ThreadPoolExecutor) -> None:
        """20 requests per second."""
        for n in itertools.count():
            if done.wait(0.05):
                return
            sent.append(callers.submit(installed.search, key, NUMBER, client, X_Request_ID=f"rolling-{n}"))

    with ThreadPoolExecutor(16) as callers:
        loader = callers.submit(load, callers)
        try:
            said = subprocess.run(
                [
                    str(plugin.ROOT / "deploy" / "rolling.sh"),
                    NAME,
                    *(f"{host.address}:{PORT}" for host in installed.hosts),
                ],
                env={**os.environ, "RESTART": str(restart), "DIRECTORY": str(tmp_path)},
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
        finally:
            done.set()
        loader.result()
    assert said.stdout.count("is ready") == 2
    assert all(pid != host.main_pid() for pid, host in zip(before, installed.hosts, strict=True))
    results: list[Future[urllib3.BaseHTTPResponse]] = sent
    assert Counter(each.result().status for each in results) == {200: len(results)}
    assert_charged_once(installed)


def test_ssh_gets_an_ipv6_host_without_brackets(serve: Callable[..., Service], tmp_path: Path) -> None:
    service = serve(HOST="::")
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "$@" >"$0.arguments"\n')
    ssh.chmod(0o755)
    subprocess.run(
        [ROLLING, "localhost", f"[::ffff:127.0.0.1]:{service.port}"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )
    said = (tmp_path / "ssh.arguments").read_text()
    assert said == f"-o BatchMode=yes ::ffff:127.0.0.1 systemctl restart callerid@{service.port}\n"


def test_a_rolling_restart_stops_at_the_first_failure(installed: Installation) -> None:
    running = [host.main_pid() for host in installed.hosts]
    addresses = [f"{host.address}:{PORT}" for host in installed.hosts]
    command = [ROLLING, NAME]
    for targets, restart, message in [
        ([*addresses, "127.0.0.1:1"], "false", "127.0.0.1:1 is not ready; nothing was restarted"),
        (addresses, "false", f"{addresses[0]} did not restart; the rest still runs the old version"),
    ]:
        done = subprocess.run(
            [*command, *targets], env={**os.environ, "RESTART": restart}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert message in done.stderr
    assert running == [host.main_pid() for host in installed.hosts]
