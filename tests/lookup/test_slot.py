"""A slot's sources in turn: max_wait_s, coverage and elapsed times."""

import asyncio
import time
from typing import Any, ClassVar

import pytest

from lookup.answers import Answer, Failed, Found, SourceCall
from lookup.connectors import registry
from lookup.connectors.base import Connector
from phonebook.models import NumberRule
from tests import connectors
from tests.api import NUMBER
from tests.awaited import search
from tests.counted import counted_calls
from tests.lookup.vendors.searches import numbers, words

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_deadline")]
T = "tests.connectors."


class ShortWait(connectors.Hangs):
    max_wait_s = 0.05


def test_the_next_source_is_called_after_max_wait_s(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S = 5.0
    settings.SOURCE_A = f"{__name__}.ShortWait,{T}RemoteKnows"
    settings.SOURCE_B = T + "Knows"
    assert search(NUMBER).slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert not ShortWait.released.is_set()


def test_a_slots_elapsed_time_excludes_the_other_slot(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = counted_calls(monkeypatch)
    settings.SOURCE_A, settings.SOURCE_B = T + "RemoteKnows", T + "HangsToo"
    slots = search(NUMBER).slots
    assert [slots[slot].status for slot in slots] == ["found", "failed"]
    # Called first, it would take longer if both were measured when the search continues.
    assert slots["source_a"].elapsed_s < slots["source_b"].elapsed_s
    taken = {slot: call.elapsed_s or 0.0 for slot, call in counted}
    assert taken["source_a"] < taken["source_b"]


def test_the_next_source_is_called_while_the_other_slot_waits(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{T}RemoteFails,{T}RemoteKnows", T + "HangsToo"
    slots = search(NUMBER).slots
    assert slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert slots["source_b"].status == "failed"


class HangsFirst(connectors.Hangs):
    max_wait_s = 0.25


class AnswersLater(connectors.RemoteKnows):
    def answer(self, number: str, timeout_s: float) -> Any:
        time.sleep(0.1)
        return super().answer(number, timeout_s)


def test_a_source_called_late_does_not_open_its_breaker(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.HangsFirst,{__name__}.AnswersLater", T + "Knows"
    for number in numbers(8):
        words(number)
    first, second = (registry.get_source(f"{__name__}.{name}").guard for name in ("HangsFirst", "AnswersLater"))
    assert first is not None
    assert second is not None
    assert (first.breaker.is_open, second.breaker.is_open) == (True, False)


class Uncovered(connectors.RemoteKnows):
    def covers(self, number: str) -> bool:
        return False


class CoversRaises(connectors.RemoteKnows):
    def covers(self, number: str) -> bool:
        raise RuntimeError(number)


def test_an_uncovered_number_is_not_found_without_a_call(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.Uncovered", T + "Knows"
    assert words() == ("not-found", "found")
    assert Uncovered.calls == []


def test_a_connector_whose_covers_raises_is_called(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.CoversRaises", T + "Knows"
    assert words() == ("found", "found")


def outcomes(counted: list[tuple[str, SourceCall]]) -> list[tuple[str, str, str]]:
    """Slot, outcome and the source's name."""
    return [(slot, call.outcome, call.connector.removeprefix(T)) for slot, call in counted]


def test_a_slow_local_source_leaves_no_time_for_the_next(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SEARCH_DEADLINE_S = 0.2
    settings.SOURCE_A, settings.SOURCE_B = f"{T}Dawdles,{T}Knows", T + "Knows"
    counted = counted_calls(monkeypatch)
    words()
    assert [each for each in outcomes(counted) if each[0] == "source_a"] == [
        ("source_a", "late", "Dawdles"),
        ("source_a", "no_time", "Knows"),
    ]


class Meets(Connector):
    """Local; answers once the other slot's has been called too."""

    fields = frozenset({"name"})
    remote = False
    both: ClassVar[asyncio.Barrier]

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        await self.both.wait()
        return Found(name="Met")


class MeetsToo(Meets):
    pass


def test_local_sources_of_both_slots_run_at_the_same_time(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S = 60
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.Meets", f"{__name__}.MeetsToo"
    Meets.both = asyncio.Barrier(2)
    assert words() == ("found", "found")


def test_slow_local_sources_share_one_deadline(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SEARCH_DEADLINE_S = 0.2
    settings.SOURCE_A, settings.SOURCE_B = T + "Dawdles", f"{T}Dawdles,{T}Knows"
    counted = counted_calls(monkeypatch)
    assert words() == ("failed", "failed")
    assert ("source_b", "no_time", "Knows") in outcomes(counted)


def test_vendor_without_time_has_failed_not_found_nothing(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The failing sequence: slot A's local sources take all the time of slot B's vendor, which is not called."""
    settings.SEARCH_DEADLINE_S = 0.2
    settings.SOURCE_A, settings.SOURCE_B = T + "Dawdles", T + "RemoteKnows"
    counted = counted_calls(monkeypatch)
    assert words() == ("failed", "failed")
    assert ("source_b", "no_time", "RemoteKnows") in outcomes(counted)
    assert connectors.RemoteKnows.calls == []


def test_a_result_says_which_source_supplied_each_field(settings: Any) -> None:
    NumberRule.objects.create(number=int(NUMBER), spam=True)
    settings.SOURCE_A, settings.SOURCE_B = f"{T}KnowsPlace,{T}RemoteFails,{T}RemoteKnows", T + "Knows"
    slots = search(NUMBER).slots
    assert slots["source_a"].suppliers() == {"location": T + "KnowsPlace", "name": T + "RemoteKnows"}
    assert slots["source_b"].suppliers() == {"name": T + "Knows", "spam": "operator rules"}
    assert [(call.connector.removeprefix(T), call.outcome) for call in slots["source_a"].calls] == [
        ("KnowsPlace", "found"),
        ("RemoteFails", "down"),
        ("RemoteKnows", "found"),
    ]
    assert [call.outcome for call in slots["source_b"].calls] == ["found", "found"]


class Talks(connectors.Recording):
    def answer(self, number: str, timeout_s: float) -> Answer:
        return Failed(f"refused {number}", f"Unblock {number}.")


def test_a_sources_own_reason_and_hint_are_cleaned(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.Talks", T + "Knows"
    (call,) = search(NUMBER).slots["source_a"].calls
    assert (call.outcome, call.hint) == ("error", "Unblock ….")
