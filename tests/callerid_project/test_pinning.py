"""PIN_WORKERS: each worker runs on one CPU, which no other worker of its server uses."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callerid_project import supervisor
from tests.service import Service

CPUS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
pytestmark = pytest.mark.once
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")


def test_more_workers_than_cpus_share_them_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 2, 3}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: pinned.append(cpus), raising=False)
    for idx in range(6):
        supervisor._pin(idx)
    assert pinned == [{2}, {3}, {5}] * 2


def test_pinning_is_skipped_where_it_is_refused_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    supervisor._pin(0)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    supervisor._pin(0)


def allowed(service: Service) -> dict[int, set[int]]:
    """For each worker, the CPUs that any of its threads may use."""
    return {
        pid: set().union(*(os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()))
        for pid in service.workers()
    }


def two_with_a_cpu_each(service: Service) -> bool:
    try:
        cpus = list(allowed(service).values())
    except OSError:  # one has just exited
        return False
    return len(cpus) == 2 and set(map(len, cpus)) == {1} and cpus[0] != cpus[1]


@two_cpus
def test_each_worker_has_its_own_cpu_also_after_a_reload(serve: Callable[..., Service], redis_url: str) -> None:
    service = serve(REDIS_URL=redis_url, WORKERS="2", PIN_WORKERS="true")
    wait_for(lambda: two_with_a_cpu_each(service))  # the first that answers is not the last to be ready
    before = set(allowed(service))
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    wait_for(lambda: not before & set(allowed(service)) and two_with_a_cpu_each(service))


@two_cpus
@pytest.mark.parametrize("environment", [{"WORKERS": "1", "PIN_WORKERS": "true"}, {"WORKERS": "2"}])
def test_one_worker_and_by_default_all_may_use_every_cpu(
    serve: Callable[..., Service], redis_url: str, environment: dict[str, str]
) -> None:
    service = serve(REDIS_URL=redis_url, **environment)
    assert all(cpus == CPUS for cpus in allowed(service).values())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
