"""A slot's members one after the other: each one's patience and coverage, and whose time is whose."""

import time
from typing import Any

import pytest

from lookup import usage
from lookup.answers import Found
from lookup.connectors import registry
from lookup.search import search
from tests import connectors
from tests.api import NUMBER
from tests.lookup.connectors.searches import numbers, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_deadline")]
T = "tests.connectors."


class Patient(connectors.Hangs):
    patience_s = 0.05


def test_a_member_that_is_slower_than_its_own_time_leaves_the_next_one_the_rest(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S = 5.0
    settings.SOURCE_A = f"{__name__}.Patient,{T}RemoteKnows"
    settings.SOURCE_B = T + "Knows"
    assert search(NUMBER).slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert not Patient.released.is_set()


def test_each_slots_time_is_its_own_sources_and_not_the_slower_ones(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, float] = {}
    monkeypatch.setattr(usage, "count", lambda *, slot, elapsed_s, **rest: taken.update({slot: elapsed_s}))
    settings.SOURCE_A, settings.SOURCE_B = T + "RemoteKnows", T + "HangsToo"
    slots = search(NUMBER).slots
    assert [slots[slot].word for slot in slots] == ["found", "failed"]
    # Asked first, it would have taken the longer, were both measured when the search goes on.
    assert slots["source_a"].elapsed_s < slots["source_b"].elapsed_s
    assert taken["source_a"] < taken["source_b"]


def test_who_stands_behind_one_that_failed_is_asked_while_the_other_slot_still_waits(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{T}RemoteFails,{T}RemoteKnows", T + "HangsToo"
    slots = search(NUMBER).slots
    assert slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert slots["source_b"].word == "failed"


def test_one_whose_turn_never_came_has_failed_and_was_not_asked(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{T}Hangs,{T}RemoteKnows", T + "Knows"
    result = search(NUMBER).slots["source_a"]
    assert (result.word, connectors.RemoteKnows.calls) == ("failed", [])


class HangsFirst(connectors.Hangs):
    patience_s = 0.25


class AnswersLater(connectors.RemoteKnows):
    def answer(self, number: str, timeout_s: float) -> Any:
        time.sleep(0.1)
        return super().answer(number, timeout_s)


def test_one_that_was_asked_too_late_is_not_judged_for_it(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.HangsFirst,{__name__}.AnswersLater", T + "Knows"
    for number in numbers(8):
        words(number)
    first, second = (registry._member(f"{__name__}.{name}").guard for name in ("HangsFirst", "AnswersLater"))
    assert first is not None
    assert second is not None
    assert (first.breaker.is_open, second.breaker.is_open) == (True, False)


class Uncovered(connectors.RemoteKnows):
    def covers(self, number: str) -> bool:
        return False


class CoversRaises(connectors.RemoteKnows):
    def covers(self, number: str) -> bool:
        raise RuntimeError(number)


def test_a_number_outside_its_coverage_is_not_asked_about_and_not_found(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.Uncovered", T + "Knows"
    assert words() == ("not-found", "found")
    assert Uncovered.calls == []


def test_one_whose_coverage_raises_is_asked(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.CoversRaises", T + "Knows"
    assert words() == ("found", "found")
