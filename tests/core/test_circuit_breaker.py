"""When the circuit breaker opens, half-opens and closes."""

import pytest

from core.circuit_breaker import CircuitBreaker, Event
from tests.clock import Clock

FAILURES, OPEN_S = 5, 30.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def breaker(clock: Clock, events: list[Event]) -> CircuitBreaker:
    return CircuitBreaker(events.append, clock, failures=FAILURES, open_s=OPEN_S)


def admitted(breaker: CircuitBreaker) -> object:
    permit = breaker.admit()
    assert permit is not None
    return permit


def fail(breaker: CircuitBreaker, times: int = FAILURES) -> None:
    for _ in range(times):
        breaker.failed(admitted(breaker))


def test_opens_after_5_consecutive_failures(breaker: CircuitBreaker, events: list[Event]) -> None:
    fail(breaker, 4)
    assert (breaker.is_open, events) == (False, [])
    fail(breaker, 1)
    assert (breaker.is_open, breaker.admit(), events) == (True, None, ["breaker_opened"])


def test_success_resets_the_failure_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    breaker.succeeded(admitted(breaker))
    fail(breaker, 4)
    assert not breaker.is_open


def test_one_probe_when_half_open_and_its_success_closes(
    breaker: CircuitBreaker, clock: Clock, events: list[Event]
) -> None:
    fail(breaker)
    clock.now += OPEN_S - 0.001
    assert breaker.admit() is None
    clock.now += 0.001
    probe = admitted(breaker)
    assert breaker.admit() is None  # one, and no more
    breaker.succeeded(probe)
    assert breaker.admit() is not None
    assert events == ["breaker_opened", "breaker_closed"]


def test_failed_probe_reopens_without_a_new_event(breaker: CircuitBreaker, clock: Clock, events: list[Event]) -> None:
    fail(breaker)
    clock.now += OPEN_S
    breaker.failed(admitted(breaker))
    clock.now += OPEN_S - 0.001
    assert breaker.admit() is None
    clock.now += 0.001
    assert breaker.admit() is not None
    assert events == ["breaker_opened"]


def test_each_failed_probe_doubles_the_time(clock: Clock, events: list[Event]) -> None:
    breaker = CircuitBreaker(events.append, clock, failures=1, open_s=1.0, max_open_s=8.0)
    fail(breaker, 1)
    for open_s in (1.0, 2.0, 4.0, 8.0, 8.0):
        clock.now += open_s - 0.001
        assert breaker.admit() is None
        clock.now += 0.001
        breaker.failed(admitted(breaker))
    clock.now += 8.0
    breaker.succeeded(admitted(breaker))
    fail(breaker, 1)
    clock.now += 1.0
    admitted(breaker)


def test_rejected_key_or_exhausted_quota_opens_at_once(breaker: CircuitBreaker) -> None:
    breaker.failed(admitted(breaker), open_now=True)
    assert breaker.admit() is None


@pytest.mark.parametrize("asked_s", [1.0, 7.0, 3600.0])
def test_retry_after_is_respected(breaker: CircuitBreaker, clock: Clock, asked_s: float) -> None:
    breaker.failed(admitted(breaker), retry_after_s=asked_s)
    clock.now += asked_s - 0.001
    assert breaker.admit() is None
    clock.now += 0.001
    assert breaker.admit() is not None


def test_results_from_before_opening_are_ignored(breaker: CircuitBreaker, clock: Clock) -> None:
    early = [admitted(breaker) for _ in range(8)]
    for permit in early[:5]:
        breaker.failed(permit)
    breaker.succeeded(early[5])
    assert breaker.is_open
    clock.now += OPEN_S
    probe = admitted(breaker)
    breaker.failed(early[6])
    breaker.succeeded(early[7])
    assert (breaker.is_open, breaker.admit()) == (True, None)
    breaker.succeeded(probe)
    assert not breaker.is_open


@pytest.mark.parametrize("asked_s", [0.0, -5.0])
def test_retry_after_of_zero_or_less_is_ignored(breaker: CircuitBreaker, asked_s: float) -> None:
    for _ in range(FAILURES):
        breaker.failed(admitted(breaker), retry_after_s=asked_s)
    assert breaker.admit() is None


def test_repeated_short_retry_after_opens_for_the_full_time(breaker: CircuitBreaker, clock: Clock) -> None:
    breaker.failed(admitted(breaker), retry_after_s=1)
    clock.now += 1
    breaker.failed(admitted(breaker), retry_after_s=1)
    clock.now += OPEN_S - 0.001
    assert breaker.admit() is None


def test_response_without_answer_only_counts_as_a_probe(breaker: CircuitBreaker, clock: Clock) -> None:
    for _ in range(FAILURES + 1):
        breaker.responded(admitted(breaker))
    fail(breaker, 4)
    breaker.responded(admitted(breaker))
    fail(breaker, 1)
    assert breaker.is_open
    clock.now += OPEN_S
    breaker.responded(admitted(breaker))
    assert not breaker.is_open
