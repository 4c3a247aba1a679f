"""When a source is left alone, and what makes it be asked again."""

import pytest

from lookup.connectors.breaker import FAILURES, OPEN_S, Breaker, Event


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def breaker(clock: Clock, events: list[Event]) -> Breaker:
    return Breaker(events.append, clock)


def admitted(breaker: Breaker) -> int:
    era = breaker.admit()
    assert era is not None
    return era


def fail(breaker: Breaker, times: int = FAILURES) -> None:
    for _ in range(times):
        breaker.failed(admitted(breaker))


def test_it_opens_after_5_failures_in_a_row(breaker: Breaker, events: list[Event]) -> None:
    fail(breaker, 4)
    assert (breaker.is_open, events) == (False, [])
    fail(breaker, 1)
    assert (breaker.is_open, breaker.admit(), events) == (True, None, ["breaker_opened"])


def test_a_success_between_counts_from_the_start_again(breaker: Breaker) -> None:
    fail(breaker, 4)
    breaker.succeeded(admitted(breaker))
    fail(breaker, 4)
    assert not breaker.is_open


def test_after_its_time_one_probe_is_made_and_its_success_closes_it(
    breaker: Breaker, clock: Clock, events: list[Event]
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


def test_a_failed_probe_opens_it_for_as_long_again_and_is_no_new_event(
    breaker: Breaker, clock: Clock, events: list[Event]
) -> None:
    fail(breaker)
    clock.now += OPEN_S
    breaker.failed(admitted(breaker))
    clock.now += OPEN_S - 0.001
    assert breaker.admit() is None
    clock.now += 0.001
    assert breaker.admit() is not None
    assert events == ["breaker_opened"]


def test_a_refused_key_or_a_spent_quota_opens_it_at_once(breaker: Breaker) -> None:
    breaker.failed(admitted(breaker), at_once=True)
    assert breaker.admit() is None


@pytest.mark.parametrize("pause_s", [1.0, 7.0, 3600.0])
def test_the_pause_that_a_source_asks_for_is_kept(breaker: Breaker, clock: Clock, pause_s: float) -> None:
    breaker.failed(admitted(breaker), pause_s=pause_s)
    clock.now += pause_s - 0.001
    assert breaker.admit() is None
    clock.now += 0.001
    assert breaker.admit() is not None


def test_a_verdict_from_before_it_opened_says_nothing_about_now(breaker: Breaker, clock: Clock) -> None:
    early = [admitted(breaker) for _ in range(8)]
    for era in early[:5]:
        breaker.failed(era)
    breaker.succeeded(early[5])
    assert breaker.is_open
    clock.now += OPEN_S
    probe = admitted(breaker)
    breaker.failed(early[6])
    breaker.succeeded(early[7])
    assert (breaker.is_open, breaker.admit()) == (True, None)
    breaker.succeeded(probe)
    assert not breaker.is_open


@pytest.mark.parametrize("pause_s", [0.0, -5.0])
def test_a_pause_of_nothing_is_none(breaker: Breaker, pause_s: float) -> None:
    for _ in range(FAILURES):
        breaker.failed(admitted(breaker), pause_s=pause_s)
    assert breaker.admit() is None


def test_one_that_always_asks_for_a_second_is_left_alone_for_its_whole_time(breaker: Breaker, clock: Clock) -> None:
    breaker.failed(admitted(breaker), pause_s=1)
    clock.now += 1
    breaker.failed(admitted(breaker), pause_s=1)
    clock.now += OPEN_S - 0.001
    assert breaker.admit() is None


def test_an_answer_that_is_none_counts_for_nothing_but_closes_as_a_probe(breaker: Breaker, clock: Clock) -> None:
    for _ in range(FAILURES + 1):
        breaker.answered(admitted(breaker))
    fail(breaker, 4)
    breaker.answered(admitted(breaker))
    fail(breaker, 1)
    assert breaker.is_open
    clock.now += OPEN_S
    breaker.answered(admitted(breaker))
    assert not breaker.is_open
