"""A mark changes whenever it is set, and stays as long as anything may be kept from before it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from lookup import marks
from lookup.models import NumberMark
from tests.api import NUMBER

OTHER = "493023125043"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """What the clock of this host says: its one item."""
    says = [timezone.now()]
    monkeypatch.setattr(timezone, "now", lambda: says[0])
    return says


def test_a_number_has_no_mark_until_it_is_set_and_then_its_own(db: None) -> None:
    assert marks.find(NUMBER) == ""
    marks.set([NUMBER])
    assert marks.find(NUMBER)
    assert marks.find(OTHER) == ""


def test_finding_one_is_one_statement(db: None, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(1):
        marks.find(NUMBER)


@pytest.mark.parametrize("later", [timedelta(0), timedelta(seconds=1), -timedelta(days=400)])
def test_a_mark_never_comes_again_though_the_clock_stands_still_or_goes_back(
    db: None, clock: list[datetime], later: timedelta
) -> None:
    seen = set()
    for _ in range(5):
        marks.set([NUMBER])
        seen.add(marks.find(NUMBER))
        clock[0] += later
    assert len(seen) == 5


def test_a_mark_of_a_whole_second_is_one_too(db: None, clock: list[datetime]) -> None:
    clock[0] = clock[0].replace(microsecond=999_999)  # set adds a microsecond where the row is new
    marks.set([NUMBER])
    first = marks.find(NUMBER)
    marks.set([NUMBER])
    assert marks.find(NUMBER) not in ("", first)


def test_those_that_are_set_at_once_have_a_mark_each_and_no_thread_waits_in_a_circle(transactional_db: None) -> None:
    both, together = [NUMBER, OTHER], Barrier(3)

    def set_them(numbers: list[str]) -> None:
        together.wait(10)
        for _ in range(10):
            marks.set(numbers)
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(set_them, numbers) for numbers in (both, both[::-1], both)]:
            done.result(60)
    assert NumberMark.objects.count() == 2


def test_no_number_stands_in_the_table(db: None) -> None:
    marks.set([NUMBER])
    assert NUMBER not in str(NumberMark.objects.values().get())
    assert bytes(NumberMark.objects.get().pk) == marks.hash_of(NUMBER) == marks.hash_of(int(NUMBER))


def test_a_block_outlives_a_new_mark_and_ends_when_it_is_lifted(db: None) -> None:
    marks.set([NUMBER], blocked=True)
    marks.set([NUMBER, OTHER])
    blocked = marks.blocked_hashes()
    assert (marks.hash_of(int(NUMBER)) in blocked, marks.hash_of(OTHER) in blocked) == (True, False)
    before = marks.find(NUMBER)
    assert (marks.unblock([NUMBER, OTHER]), marks.unblock([NUMBER, OTHER])) == (1, 0)
    assert marks.blocked_hashes() == frozenset()
    assert marks.find(NUMBER) == before


def test_only_what_is_past_its_age_and_not_blocked_is_pruned(db: None, clock: list[datetime]) -> None:
    marks.set(["493023125001"])
    marks.set(["493023125002"], blocked=True)
    clock[0] += timedelta(days=1)
    marks.set(["493023125003"])
    clock[0] += marks.KEPT
    assert [marks.prune(), marks.prune()] == [1, 0]
    assert [bool(marks.find(f"49302312500{n}")) for n in (1, 2, 3)] == [False, True, True]
