"""A worker keeps to a CPU that no other worker of its server has."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callerid_project.affinity import in_turn
from tests import plugin
from tests.service import Service

CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
pytestmark = pytest.mark.once
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="there are no two CPUs here")


@pytest.mark.parametrize(
    ("siblings", "cpus", "first", "expected"),
    [
        ({}, {0, 1, 2}, 0, [0, 1, 2]),
        ({}, {0, 1, 2}, 4, [1, 2, 0]),
        ({}, {5}, 999, [5]),
        ({0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5"}, {0, 1, 4, 5}, 0, [0, 1, 4, 5]),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, {0, 1, 2, 3}, 1, [2, 0, 3, 1]),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, {1, 2, 3}, 0, [1, 2, 3]),
    ],
)
def test_cores_are_given_before_their_hyper_threads(
    siblings: dict[int, str], cpus: set[int], first: int, expected: list[int], tmp_path: Path
) -> None:
    for cpu, listed in siblings.items():
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{listed}\n", encoding="ascii")
    assert in_turn(cpus, first, tmp_path) == expected


@two_cpus
def test_as_many_workers_as_cpus_have_one_each_and_more_share_them_evenly() -> None:
    def kept(worker: int) -> int:
        script = f"from callerid_project.affinity import *; print(keep_to_one({worker}, 7), *os.sched_getaffinity(0))"
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=plugin.ROOT, capture_output=True, text=True, check=True
        )
        said, *allowed = map(int, done.stdout.split())
        assert allowed == [said]
        return said

    few = min(len(CPUS), 4)
    assert len({kept(worker) for worker in range(few)}) == few
    assert kept(len(CPUS)) == kept(0)


def test_a_system_that_does_not_allow_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from callerid_project import affinity

    def refused(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refused, raising=False)
    assert affinity.keep_to_one(0, 0) is None
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert affinity.keep_to_one(0, 0) is None


def allowed(service: Service) -> dict[int, set[int]]:
    """For each worker, the CPUs that any of its threads may use."""
    return {
        pid: set().union(*(os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()))
        for pid in service.workers()
    }


def two_with_a_cpu_each(service: Service) -> bool:
    try:
        cpus = list(allowed(service).values())
    except OSError:  # one has just ended
        return False
    return len(cpus) == 2 and set(map(len, cpus)) == {1} and cpus[0] != cpus[1]


@two_cpus
def test_each_of_two_workers_has_a_cpu_of_its_own_also_after_a_reload(
    serve: Callable[..., Service], redis_url: str
) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2")
    wait_for(lambda: two_with_a_cpu_each(service))  # the first that answers is not the last to be ready
    before = set(allowed(service))
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    wait_for(lambda: not before & set(allowed(service)) and two_with_a_cpu_each(service))


@two_cpus
@pytest.mark.parametrize("environment", [{"WORKERS": "1"}, {"WORKERS": "2", "PIN_WORKERS": "false"}])
def test_one_worker_or_workers_that_are_not_pinned_keep_all(
    serve: Callable[..., Service], redis_url: str, environment: dict[str, str]
) -> None:
    service = serve(REDIS_URL=redis_url, **environment)
    assert all(cpus == CPUS for cpus in allowed(service).values())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
