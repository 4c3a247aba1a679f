"""Sources that operators pause: not called by any process, and counted as failed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connection

from core import history, loop, write_buffer
from lookup import pauses, source_actions
from lookup.answers import Found, NotFound
from lookup.connectors import registry
from lookup.models import SourcePause
from lookup.pauses import PausedSources
from lookup.search import SearchResult
from monitoring import source_report
from monitoring.models import SourceHour, SourceResult
from phonebook.models import NumberRule
from tests import connectors
from tests.api import NUMBER, Integrator
from tests.awaited import search

pytestmark = pytest.mark.django_db

T = "tests.connectors."


@pytest.fixture
def ask(settings: Any) -> Callable[..., SearchResult]:
    """Binds both slots, pauses sources, and searches."""

    def bound(source_a: str, source_b: str, *, paused: str) -> SearchResult:
        settings.SOURCE_A, settings.SOURCE_B = source_a, source_b
        for name in paused.split(","):
            SourcePause.objects.create(connector=name, reason="invoice unpaid", paused_by="olga")
        pauses.process_pauses = PausedSources()
        return search(NUMBER)

    return bound


def outcomes(result: SearchResult, slot: str = "source_a") -> list[tuple[str, str]]:
    return [(call.connector.removeprefix(T), call.outcome) for call in result.slots[slot].calls]


@pytest.mark.parametrize("first", ["KnowsName", "RemoteKnowsName"])
def test_paused_source_is_not_called_and_the_next_is(ask: Any, first: str) -> None:
    result = ask(f"{T}{first},{T}RemoteKnows", f"{T}KnowsNothing", paused=T + first)
    assert outcomes(result) == [(first, "paused"), ("RemoteKnows", "found")]
    assert result.slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert getattr(connectors, first).calls == []


@pytest.mark.parametrize("name", ["Knows", "RemoteKnows"])
def test_slot_of_paused_sources_failed_and_is_never_not_found(ask: Any, name: str) -> None:
    result = ask(f"{T}{name},{T}KnowsNothing", f"{T}KnowsNothing", paused=T + name)
    assert result.slots["source_a"].answer == pauses.PAUSED
    assert result.slots["source_b"].answer == NotFound()
    assert result.degraded


def test_all_sources_paused_is_a_500_and_not_charged(ask: Any, settings: Any) -> None:
    integrator = Integrator()
    ask(T + "Knows", T + "RemoteKnowsToo", paused=f"{T}Knows,{T}RemoteKnowsToo")
    response = integrator.search()
    assert response.status_code == 500
    assert "failed" in response.headers["Server-Timing"]
    assert (integrator.debits(), integrator.balance()) == (0, 10)


def test_cached_answers_of_a_paused_source_are_used(ask: Any, settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = T + "RemoteKnows"
    search(NUMBER)
    registry.reset()  # waits until the answer is in the cache
    result = ask(T + "RemoteKnows", T + "KnowsNothing", paused=T + "RemoteKnows")
    assert outcomes(result) == [("RemoteKnows", "cached_found")]
    assert connectors.RemoteKnows.calls == [NUMBER]


def test_operator_rules_answer_for_a_paused_source(ask: Any) -> None:
    NumberRule.objects.create(number=int(NUMBER), name="By Rule", spam=True)
    result = ask(T + "Knows", T + "Knows", paused=T + "Knows")
    assert result.slots["source_a"].answer == Found(name="By Rule")
    assert result.slots["source_b"].answer == Found(name="By Rule", spam=True)


def test_pause_counts_as_a_failure_without_call(ask: Any) -> None:
    ask(T + "RemoteKnows", T + "KnowsNothing", paused=T + "RemoteKnows")
    write_buffer.process_buffer.flush()
    rows = SourceHour.objects.filter(connector=T + "RemoteKnows")
    (usage,) = [each.usage for each in source_report.report(rows.get().hour).sources if "Remote" in each.name]
    assert (usage.calls, usage.failures, usage.mean_ms) == (0, {"paused": 1}, None)
    assert not SourceResult.objects.filter(connector=T + "RemoteKnows").exists()


# --- How a process knows ----------------------------------------------------------------------------------------------


def test_pause_is_noticed_after_the_interval_and_not_before() -> None:
    now = 0.0
    copy = PausedSources(clock=lambda: now)
    assert loop.run(copy.names()) == frozenset()
    SourcePause.objects.create(connector="twilio", reason="r", paused_by="olga")
    SourcePause.objects.create(connector="yelp", reason="r", paused_by="olga")
    now = pauses.REFRESH_S - 0.1
    assert loop.run(copy.names()) == frozenset()
    now = pauses.REFRESH_S
    assert loop.run(copy.names()) == {"twilio", "yelp"}


def test_concurrent_first_searches_all_know_the_pauses() -> None:
    SourcePause.objects.create(connector="twilio", reason="r", paused_by="olga")
    copy = PausedSources(clock=lambda: 1.0)
    found: list[frozenset[str]] = []
    is_first = True

    def search_meanwhile(execute: Any, *args: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            found.append(loop.run(copy.names()))
        return execute(*args)

    with connection.execute_wrapper(search_meanwhile):
        assert loop.run(copy.names()) == {"twilio"}
    assert found == [frozenset({"twilio"})]


def test_last_known_state_stays_while_the_table_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    SourcePause.objects.create(connector="twilio", reason="r", paused_by="olga")
    now = 0.0
    copy = PausedSources(clock=lambda: now)
    assert loop.run(copy.names()) == {"twilio"}

    def refuse(*args: Any) -> Any:
        raise DatabaseError("secret")

    with connection.execute_wrapper(refuse):
        for now in (10.0, 20.0, 30.0):  # noqa: B007  (the clock's)
            assert loop.run(copy.names()) == {"twilio"}
    assert [record.message for record in caplog.records] == [
        "the paused sources cannot be read, the last known stay paused (DatabaseError)"
    ]
    SourcePause.objects.all().delete()
    now = 40.0
    assert loop.run(copy.names()) == frozenset()


# --- Pausing and resuming ---------------------------------------------------------------------------------------------


def test_pause_and_resume_are_recorded_in_the_history(settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = T + "Knows"
    olga = User.objects.create_user("olga")
    source_actions.pause(name=T + "Knows", reason=" the invoice\nis unpaid ", user=olga)
    assert search(NUMBER).failed
    source_actions.resume(name=T + "Knows")
    pauses.process_pauses = PausedSources()
    assert search(NUMBER).found == 2
    entries = LogEntry.objects.order_by("pk").values_list("user__username", "object_repr", "change_message")
    assert list(entries) == [
        ("olga", T + "Knows", "Paused. the invoice is unpaid"),
        (history.command_actor(), T + "Knows", "Resumed."),
    ]


def test_commands_pause_and_resume_a_source(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory", "complaints"
    call_command("pause_source", "directory", "--reason", "moving", "--json")
    paused = json.loads(capsys.readouterr().out)
    assert (paused["paused_by"], paused["reason"]) == (history.command_actor(), "moving")
    assert paused["slots_without_sources"] == ["source_a"]
    call_command("resume_source", "directory")
    assert not SourcePause.objects.exists()


def test_invalid_pauses_change_nothing(settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "directory"
    with pytest.raises(ValueError, match="twilio is not configured"):
        source_actions.pause(name="twilio", reason="r")
    with pytest.raises(ValueError, match="Enter a reason"):
        source_actions.pause(name="directory", reason="\n")
    with pytest.raises(ValueError, match="directory is not paused"):
        source_actions.resume(name="directory")
    source_actions.pause(name="directory", reason="first")
    with pytest.raises(ValueError, match=r"already paused by .* since .*: first"):
        source_actions.pause(name="directory", reason="second")
    assert [pause.reason for pause in SourcePause.objects.all()] == ["first"]
    assert LogEntry.objects.count() == 1


def test_source_that_is_no_longer_configured_can_be_resumed() -> None:
    SourcePause.objects.create(connector="gone", reason="r", paused_by="olga")
    source_actions.resume(name="gone")
    assert not SourcePause.objects.exists()


def test_slots_that_lose_their_last_source_are_named(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory,geography", "complaints,directory"
    assert source_actions.slots_without_others("directory") == []
    source_actions.pause(name="complaints", reason="r")
    assert source_actions.slots_without_others("geography") == []
    assert source_actions.slots_without_others("directory") == ["source_b"]
    source_actions.pause(name="geography", reason="r")
    assert source_actions.slots_without_others("directory") == ["source_a", "source_b"]
