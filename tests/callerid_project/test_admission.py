"""Admission control: how many requests run and are queued at once; the rest are refused."""

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import pytest

from callerid_project.admission import Admission, Overloaded

pytestmark = pytest.mark.once


class Hold:
    """A call that runs until it is released."""

    def __init__(self) -> None:
        self.running, self.release = threading.Semaphore(0), threading.Event()

    def __call__(self) -> str:
        self.running.release()
        self.release.wait(20)
        return "held"


@pytest.fixture
def hold() -> Iterator[Hold]:
    hold = Hold()
    yield hold
    hold.release.set()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as callers:
        yield callers


def test_requests_beyond_threads_and_queue_are_refused(hold: Hold, callers: ThreadPoolExecutor) -> None:
    admission = Admission(threads=2, max_queued=3, max_wait_s=20)
    calls = {callers.submit(admission.run, hold) for _ in range(2)}
    assert all(hold.running.acquire(timeout=20) for _ in range(2))
    calls |= {callers.submit(admission.run, hold) for _ in range(5)}
    refused: set[Future[str]] = set()
    while len(refused) < 2:
        done, _ = wait(calls - refused, 20, FIRST_COMPLETED)
        assert done
        refused |= done
    assert all(isinstance(call.exception(), Overloaded) for call in refused)
    assert not hold.running.acquire(blocking=False)  # queued calls have not started
    hold.release.set()
    assert [call.result(20) for call in calls - refused] == ["held"] * 5
    assert admission.run(lambda: "again") == "again"


def test_a_request_that_waited_too_long_never_runs(hold: Hold, callers: ThreadPoolExecutor) -> None:
    admission, ran = Admission(threads=1, max_queued=9, max_wait_s=0.01), threading.Event()
    held = callers.submit(admission.run, hold)
    assert hold.running.acquire(timeout=20)
    with pytest.raises(Overloaded):
        admission.run(ran.set)
    hold.release.set()
    assert held.result(20) == "held"  # it ran for longer than max_wait_s
    assert admission.run(lambda: "again") == "again"
    assert not ran.is_set()


def test_queued_calls_run_in_order(hold: Hold, callers: ThreadPoolExecutor) -> None:
    admission, order = Admission(threads=1, max_queued=9, max_wait_s=20), list[int]()
    calls: list[Future[Any]] = [callers.submit(admission.run, hold)]
    assert hold.running.acquire(timeout=20)
    for index in range(5):
        calls.append(callers.submit(admission.run, partial(order.append, index)))
        while admission.queued <= index:
            assert not calls[-1].done()
    hold.release.set()
    wait(calls, 20)
    assert order == [0, 1, 2, 3, 4]


def test_an_exception_reaches_the_caller_and_ends_no_thread() -> None:
    admission = Admission(threads=1, max_queued=9, max_wait_s=20)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            admission.run(lambda: 1 / 0)
    assert admission.run(threading.get_ident) == admission.run(threading.get_ident) != threading.get_ident()


def test_a_burst_is_not_refused_while_threads_are_free(hold: Hold, callers: ThreadPoolExecutor) -> None:
    """The failing sequence: calls that no thread had taken from the queue yet counted as queued."""
    for _ in range(200):
        admission = Admission(threads=4, max_queued=1, max_wait_s=20)
        arrived = threading.Barrier(5)

        def arrive(admission: Admission = admission, arrived: threading.Barrier = arrived) -> str:
            arrived.wait(20)
            return admission.run(lambda: "ran")

        assert [call.result(20) for call in [callers.submit(arrive) for _ in range(5)]] == ["ran"] * 5


def test_without_a_queue_requests_run_while_threads_are_free(hold: Hold, callers: ThreadPoolExecutor) -> None:
    admission = Admission(threads=1, max_queued=0, max_wait_s=20)
    assert admission.run(lambda: "ran") == "ran"
    held = callers.submit(admission.run, hold)
    assert hold.running.acquire(timeout=20)
    with pytest.raises(Overloaded):
        admission.run(lambda: "ran")
    hold.release.set()
    assert held.result(20) == "held"


def test_overload_is_logged_at_most_once_per_interval(
    callers: ThreadPoolExecutor, hold: Hold, caplog: pytest.LogCaptureFixture
) -> None:
    admission = Admission(threads=1, max_queued=0, max_wait_s=20)
    callers.submit(admission.run, hold)
    assert hold.running.acquire(timeout=20)
    for _ in range(50):
        with pytest.raises(Overloaded):
            admission.run(lambda: None)
    assert [record.getMessage() for record in caplog.records] == ["overloaded: 1 request refused with 503"]
