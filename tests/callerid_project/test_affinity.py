"""A worker keeps to a CPU that no other worker has."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import plugin
from tests.service import Service

CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(len(CPUS) < 2, reason="there are no two CPUs here"),
]

TAKES_ONE = """
import os, sys
from callerid_project.affinity import take_cpu
cpu = take_cpu(sys.argv[1])
assert os.sched_getaffinity(0) == {cpu}
print(cpu, flush=True)
input()
"""


class Taker:
    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", TAKES_ONE, name],
            cwd=plugin.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.cpu = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def take() -> Iterator[Callable[[], Taker]]:
    takers = []
    name = f"test-{secrets.token_hex(8)}"

    def start() -> Taker:
        takers.append(Taker(name))
        return takers[-1]

    yield start
    for taker in takers:
        taker.kill()


def test_each_takes_another_cpu_and_leaves_it_when_it_is_killed(take: Callable[[], Taker]) -> None:
    first = [take() for _ in CPUS]
    assert {taker.cpu for taker in first} == CPUS
    first[1].kill()
    assert take().cpu == first[1].cpu


def test_more_processes_than_cpus_share_them_evenly(take: Callable[[], Taker]) -> None:
    taken = sorted(take().cpu for _ in range(2 * len(CPUS)))
    assert taken == sorted([*CPUS, *CPUS])


def allowed(service: Service) -> list[set[int]]:
    """For each worker, the CPUs that any of its threads may use."""
    assert service.process is not None
    main = service.process.pid
    workers = [pid for pid in children(main) if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return [
        set().union(*(os.sched_getaffinity(int(thread.name)) for thread in Path(f"/proc/{pid}/task").iterdir()))
        for pid in workers
    ]


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


def test_each_of_two_workers_keeps_to_one_cpu_with_all_its_threads(
    serve: Callable[..., Service], redis_url: str
) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2")
    deadline = time.monotonic() + 60
    # The first that answers is not the last to be ready.
    while sorted(map(len, allowed(service))) != [1, 1]:
        assert time.monotonic() < deadline, allowed(service)
        time.sleep(0.05)


@pytest.mark.parametrize("environment", [{"WORKERS": "1"}, {"WORKERS": "2", "PIN_WORKERS": "false"}])
def test_one_worker_or_workers_that_are_not_pinned_keep_all(
    serve: Callable[..., Service], redis_url: str, environment: dict[str, str]
) -> None:
    service = serve(REDIS_URL=redis_url, **environment)
    assert all(cpus == CPUS for cpus in allowed(service))
