"""Admission: how many searches run at once; the others wait in order, and are refused by age."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from core.admission import Admission, Overloaded

pytestmark = pytest.mark.once


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


async def waiting(admission: Admission, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(admission.begin()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


@on_loop
async def test_searches_wait_in_the_order_of_their_arrival() -> None:
    admission = Admission(most_running=2, most_waiting=9, max_wait_s=20)
    for _ in range(2):
        await admission.begin()
    tasks = await waiting(admission, 3)
    assert [task.done() for task in tasks] == [False] * 3
    for index in range(3):
        admission.end()
        await tasks[index]
        assert [task.done() for task in tasks] == [each <= index for each in range(3)]
        assert admission.running == 2
    for _ in range(2):
        admission.end()
    assert admission.running == 0


@on_loop
async def test_no_more_than_most_waiting_wait() -> None:
    admission = Admission(most_running=1, most_waiting=2, max_wait_s=20)
    await admission.begin()
    tasks = await waiting(admission, 2)
    with pytest.raises(Overloaded):
        await admission.begin()
    for task in tasks:
        admission.end()
        await task


@on_loop
async def test_a_search_that_waited_too_long_is_refused() -> None:
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=0.05)
    await admission.begin()
    with pytest.raises(Overloaded):
        await admission.begin()
    admission.end()
    assert admission.running == 0
    await admission.begin()


@on_loop
async def test_searches_are_refused_on_arrival_while_the_queue_stands() -> None:
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=20)
    await admission.begin()
    (task,) = await waiting(admission, 1)
    assert admission.admits()
    turn, began = admission._waiting[0]
    admission._waiting[0] = turn, began - 11
    assert not admission.admits()
    with pytest.raises(Overloaded):
        await admission.begin()
    admission.end()  # the oldest one begins
    await task
    assert admission.admits()


@on_loop
async def test_searches_of_one_turn_of_the_event_loop_are_counted() -> None:
    """None of them has begun when the last one arrives."""
    admission = Admission(most_running=2, most_waiting=3, max_wait_s=20)
    assert [admission.admits() for _ in range(7)] == [True] * 5 + [False] * 2
    await asyncio.sleep(0)
    assert [admission.admits() for _ in range(7)] == [True] * 5 + [False] * 2
    await asyncio.sleep(0)
    await admission.begin()
    await admission.begin()
    tasks = await waiting(admission, 2)
    assert [admission.admits() for _ in range(3)] == [True, False, False]
    for task in tasks:
        admission.end()
        await task


@on_loop
async def test_searches_that_run_again_take_no_place_in_the_queue() -> None:
    """After they have waited for something else, more of them may run than may begin."""
    admission = Admission(most_running=1, most_waiting=2, max_wait_s=20)
    for _ in range(4):
        await admission.begin()
        admission.end()
    admission.running += 4  # as they run again
    tasks = await waiting(admission, 2)
    assert [task.done() for task in tasks] == [False, False]
    assert not admission.admits()
    for task in tasks:
        task.cancel()


@on_loop
async def test_a_search_that_a_late_loop_kept_waiting_is_refused() -> None:
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=0.2)
    await admission.begin()
    (task,) = await waiting(admission, 1)
    admission.end()
    time.sleep(0.3)  # its turn has come, but the loop is blocked
    with pytest.raises(Overloaded):
        await task
    assert admission.running == 0


@pytest.mark.parametrize("ended_first", [True, False])
@on_loop
async def test_a_cancelled_search_gives_its_place_back_once(ended_first: bool) -> None:
    """The failing sequence: it is cancelled, and another search ends before its task runs."""
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=20)
    await admission.begin()
    (task,) = await waiting(admission, 1)
    steps: list[Callable[[], object]] = [admission.end, task.cancel]
    for step in steps if ended_first else reversed(steps):
        step()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert admission.running == 0


@on_loop
async def test_another_search_runs_while_one_is_released() -> None:
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=20)
    await admission.begin()
    (task,) = await waiting(admission, 1)
    with admission.released():
        await task
        with pytest.raises(TimeoutError):  # the second one runs
            await asyncio.wait_for(admission.begin(), 0.01)
    assert admission.running == 2
    for _ in range(2):
        admission.end()
    assert admission.running == 0
    await admission.begin()


@on_loop
async def test_search_with_two_parts_that_wait_is_released_once() -> None:
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=20)
    await admission.begin()
    leave = [asyncio.Event(), asyncio.Event()]

    async def part(leave: asyncio.Event) -> None:
        with admission.released():
            await leave.wait()

    parts = [asyncio.create_task(part(each)) for each in leave]
    first, second = await waiting(admission, 2)
    await first
    assert (admission.running, second.done()) == (1, False)
    leave[0].set()
    await parts[0]
    assert admission.running == 1
    leave[1].set()
    await parts[1]
    assert admission.running == 2
    admission.end()
    await second


@on_loop
async def test_a_search_that_was_not_admitted_releases_nothing() -> None:
    """The console tests a number: no more searches than `most_running` may run meanwhile."""
    admission = Admission(most_running=1, most_waiting=9, max_wait_s=20)
    (first,) = await waiting(admission, 1)
    await first
    (second,) = await waiting(admission, 1)
    with admission.released():
        await asyncio.sleep(0)
        assert (admission.running, second.done()) == (1, False)
    admission.end()
    await second
    admission.end()
    assert admission.running == 0
