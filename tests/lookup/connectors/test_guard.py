"""Around what leaves the process: one call a number, a bulkhead, a breaker, and a way back."""

import logging
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from callerid_project.middleware import request_id
from lookup import usage
from lookup.answers import Found
from lookup.connectors import breaker, cache, registry
from lookup.connectors import guard as guarding
from lookup.search import search
from tests import connectors, upstream
from tests.api import NUMBER
from tests.lookup.connectors.conftest import PRESETS, Vendors
from tests.lookup.connectors.searches import numbers, until, words
from tests.upstream import hangs, raw, says

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_deadline")]
T = "tests.connectors."


# --- One call a number, the bulkhead --------------------------------------------------------------------------------


def test_concurrent_searches_for_one_number_ask_the_vendor_once_and_count_one_call(
    vendors: Vendors, transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.SEARCH_DEADLINE_S = 20  # nobody is late, however busy the machine
    outcomes: list[str] = []
    monkeypatch.setattr(usage, "count", lambda *, outcome, **rest: outcomes.append(outcome))
    together = threading.Barrier(8)
    vendors.a.repair(upstream.slow(0.1, says(upstream.GOOD_A)))
    answers = []

    def ask() -> None:
        together.wait(10)
        answers.append(search(NUMBER).slots["source_a"].answer)
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [Found(name="Example Bakery", location="Springfield, IL")] * 8
    assert len(vendors.a.heads) == 1
    assert Counter(outcomes) == {"found": 2, "cached_found": 14}


def test_a_connector_in_both_slots_is_asked_once_and_answers_both(settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = T + "RemoteKnows"
    slots = search(NUMBER).slots
    assert slots["source_a"].answer == Found(name="Remote Name", location="Remote Place")
    assert slots["source_b"].answer == Found(name="Remote Name", spam=True)
    again = search(NUMBER).slots
    assert [again[slot].answer for slot in again] == [slots[slot].answer for slot in slots]
    assert connectors.RemoteKnows.calls == [NUMBER]


@pytest.mark.parametrize(
    ("behaviour", "reason", "deadline_s"),
    [(upstream.slow(0.5, raw(b"", 500)), "unavailable", 20), (hangs, "late", 0.3)],
)
def test_a_failed_call_that_both_slots_share_counts_as_one_call(
    vendors: Vendors, settings: Any, monkeypatch: pytest.MonkeyPatch, behaviour: Any, reason: str, deadline_s: float
) -> None:
    settings.SEARCH_DEADLINE_S = settings.CALL_LIFETIME_S = deadline_s
    outcomes: list[str] = []
    monkeypatch.setattr(usage, "count", lambda *, outcome, **rest: outcomes.append(outcome))
    settings.SOURCE_B = settings.SOURCE_A
    vendors.a.repair(behaviour)
    search(NUMBER)
    assert sorted(outcomes) == sorted([reason, f"shared_{reason}"])


def test_a_member_for_which_no_time_is_left_is_not_called_and_counts_as_such(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[tuple[str, str]] = []
    monkeypatch.setattr(
        usage, "count", lambda *, connector, outcome, **rest: outcomes.append((connector.removeprefix(T), outcome))
    )
    settings.SOURCE_A, settings.SOURCE_B = f"{T}Hangs,{T}RemoteKnows", T + "KnowsNothing"
    search(NUMBER)
    assert outcomes == [("Hangs", "late"), ("RemoteKnows", "no_time"), ("KnowsNothing", "not_found")]
    assert connectors.RemoteKnows.calls == []


def test_a_call_under_an_earlier_mark_is_not_joined_and_what_it_brings_is_not_met_under_the_new_one(
    settings: Any,
) -> None:
    settings.SOURCE_A = T + "Hangs"
    guard = registry.bind("source_a", "SOURCE_A", T + "Hangs")[0].guard
    assert guard is not None
    deadline = time.monotonic() + 20
    early, late = (guard.ask("source_a", NUMBER, mark=mark, deadline=deadline) for mark in ("early", "late"))
    assert early.flight is not None
    assert late.flight is not None
    assert (late.joined, late.flight is early.flight) == (False, False)
    assert guard.ask("source_a", NUMBER, mark="late", deadline=deadline).flight is late.flight
    connectors.Hangs.released.set()
    until(lambda: not guard._flights)
    known = Found(name="Too Late", location="Too Late", spam=True)
    assert [guard.ask("source_a", NUMBER, mark=mark, deadline=deadline).answer for mark in ("early", "late")] == (
        [known, known]
    )
    assert connectors.Hangs.calls == [NUMBER] * 2
    assert guard.ask("source_a", NUMBER, mark="latest", deadline=deadline).flight is not None


def test_a_full_bulkhead_sheds_load_and_never_queues(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "FAILURES", 1000)
    vendors.a.repair(hangs)
    guard = registry.bind("source_a", "SOURCE_A", "mock_a")[0].guard
    assert guard is not None
    deadline = time.monotonic() + 60
    replies = [guard.ask("source_a", number, mark="", deadline=deadline) for number in numbers(20)]
    assert [reply.answer.reason for reply in replies if reply.answer] == ["busy"] * 4  # type: ignore[union-attr]
    until(lambda: guard._free._value == guard.connector.concurrency)  # their lifetime is over: the threads are free
    vendors.a.repair(says(upstream.GOOD_A))
    assert words("12025559999") == ("found", "found")


class One(connectors.RemoteKnows):
    concurrency = 1


def test_a_call_has_left_its_place_when_its_answer_is_known_even_while_that_is_being_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard = registry.bind("source_a", "SOURCE_A", f"{__name__}.One")[0].guard
    assert guard is not None
    kept = threading.Event()
    monkeypatch.setattr(cache.AnswerCache, "put", lambda *args: kept.wait(20))
    deadline = time.monotonic() + 20
    try:
        for number in numbers(3):
            reply = guard.ask("source_a", number, mark="", deadline=deadline)
            assert reply.flight is not None, reply
            assert isinstance(reply.flight.future.result(20), Found)
    finally:
        kept.set()


def test_a_thread_that_cannot_be_started_costs_one_search_and_no_place(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = registry.bind("source_a", "SOURCE_A", "mock_a")[0].guard
    assert guard is not None

    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more)
        reply = guard.ask("source_a", NUMBER, mark="", deadline=time.monotonic() + 1)
    assert reply.answer == guarding.BUSY
    assert (guard._free._value, guard._flights) == (guard.connector.concurrency, {})
    assert words() == ("found", "found")


def test_who_asks_after_a_failure_asks_anew_and_others_join_that_call(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = registry.bind("source_a", "SOURCE_A", "mock_a")[0].guard
    assert guard is not None
    go_on = threading.Event()
    monkeypatch.setattr(guard, "_keep", lambda flight, answer: go_on.wait(20))
    vendors.a.repair(raw(b"", 500))
    deadline = time.monotonic() + 20
    first = guard.ask("source_a", NUMBER, mark="", deadline=deadline)
    assert first.flight is not None
    first.flight.future.result(20)
    vendors.a.repair(hangs)
    second = guard.ask("source_a", NUMBER, mark="", deadline=deadline)
    go_on.set()
    until(lambda: guard._free._value == guard.connector.concurrency - 1)  # the first has landed altogether
    assert second.flight is not first.flight
    assert guard.ask("source_a", NUMBER, mark="", deadline=deadline).flight is second.flight


def test_a_call_that_is_not_admitted_takes_no_place(vendors: Vendors) -> None:
    vendors.a.repair(raw(b"", 401))
    for number in numbers(20):
        words(number)
    guard = registry._member("mock_a").guard
    assert guard is not None
    assert guard._free._value == guard.connector.concurrency


@pytest.mark.parametrize(("key", "asked"), [("number_specific = true\n", 8), ("", breaker.FAILURES)])
def test_a_failure_of_one_number_does_not_open_the_breaker(
    vendors: Vendors, settings: Any, tmp_path: Path, key: str, asked: int
) -> None:
    rule = f'[[outcome]]\nstatus = [200]\nwhen = "status == `5`"\nis = "unavailable"\n{key}\n'
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text.replace("[[outcome]]", f"{rule}[[outcome]]", 1), encoding="utf-8")
    settings.PRESET_DIR, settings.SOURCE_B, settings.SEARCH_DEADLINE_S = str(tmp_path), "complaints", 20
    vendors.a.repair(says({"status": 5}))
    assert [words(number)[0] for number in numbers(8)] == ["failed"] * 8
    assert len(vendors.a.heads) == asked


def test_a_calls_log_line_has_the_requests_id(vendors: Vendors, caplog: pytest.LogCaptureFixture) -> None:
    vendors.a.repair(raw(b"", 500))
    ids: list[str] = []

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ids.append(request_id.get())

    handler, logger = Noted(), logging.getLogger("lookup.connectors.guard")
    logger.addHandler(handler)
    token = request_id.set("the-id-of-this-request")
    try:
        words()
        until(lambda: ids)
    finally:
        request_id.reset(token)
        logger.removeHandler(handler)
    assert ids == ["the-id-of-this-request"]


# --- The breaker ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["resets", "hangs before headers", "500", "HTML with 200"])
def test_after_5_failures_the_vendor_is_left_alone(vendors: Vendors, fault: str) -> None:
    vendors.a.repair(upstream.FAULTS[fault][0])
    assert [words(number) for number in numbers(8)] == [("failed", "found")] * 8
    assert len(vendors.a.heads) == 5
    assert len(vendors.b.heads) == 8


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_refused_key_or_a_spent_quota_is_not_tried_again(vendors: Vendors, status: int) -> None:
    vendors.a.repair(raw(b"", status))
    for number in numbers(3):
        words(number)
    assert len(vendors.a.heads) == 1


def test_nobody_knows_is_no_failure(vendors: Vendors) -> None:
    vendors.a.repair(raw(b"", 404))
    assert [words(number)[0] for number in numbers(8)] == ["not-found"] * 8


def test_a_kept_answer_is_given_while_the_breaker_is_open(vendors: Vendors) -> None:
    words()
    vendors.a.repair(raw(b"", 401))
    assert words("12025550000")[0] == "failed"
    assert words()[0] == "found"


def test_a_slot_is_back_after_the_repair_also_when_its_bulkhead_was_full_of_dripping_calls(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "OPEN_S", 0.5)
    monkeypatch.setattr(guarding, "FAIR_SHARE", 0)
    vendors.a.repair(upstream.drips_body)
    guard = registry.bind("source_a", "SOURCE_A", "mock_a")[0].guard
    assert guard is not None
    flights = [guard.ask("source_a", number, mark="", deadline=time.monotonic() + 0.3).flight for number in numbers(16)]
    assert guard._free._value == 0
    for flight in flights[:5]:
        assert flight is not None
        guard.gave_up(flight)
    assert guard.breaker.is_open
    vendors.a.repair(says(upstream.GOOD_A))
    fresh = iter(range(12025560000, 12025570000))
    until(lambda: words(str(next(fresh))) == ("found", "found"))
    assert not guard.breaker.is_open


def test_what_a_vendor_asks_for_is_how_long_it_is_left_alone(vendors: Vendors) -> None:
    vendors.a.repair(raw(b"", 429, "Retry-After: 7200\r\n"))
    words()
    guard = registry._member("mock_a").guard
    assert guard is not None
    assert guard.breaker._open_until is not None
    assert 7100 < guard.breaker._open_until - time.monotonic() <= 7200


def test_numbers_that_a_vendor_does_not_take_close_it_to_nobody(vendors: Vendors) -> None:
    vendors.a.repair(raw(b"{}", 400))
    assert [words(number)[0] for number in numbers(8)] == ["failed"] * 8
    vendors.a.repair(says(upstream.GOOD_A))
    assert words() == ("found", "found")


# --- Over many calls -------------------------------------------------------------------------------------------------


@pytest.mark.once
def test_threads_memory_and_files_stay_flat_over_10000_faulty_searches(
    vendors: Vendors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "OPEN_S", 0.0)  # every search makes its call
    quick = ["resets", "stops short", "not HTTP", "HTML with 200", "deep JSON", "wrong types", "204", "301", "500"]
    faults = [upstream.FAULTS[name][0] for name in quick]

    def run(count: int) -> None:
        for n in range(count):
            vendors.a.behave = vendors.b.behave = faults[n % len(faults)]
            assert words(str(12025550000 + n)) == ("failed", "failed")
            for vendor in (vendors.a, vendors.b):
                vendor.heads.clear()
                vendor.bodies.clear()

    monkeypatch.setattr(logging.getLogger("lookup"), "disabled", True)  # what pytest captures would be measured
    for name in ("guard", "base"):
        monkeypatch.setattr(logging.getLogger(f"lookup.connectors.{name}"), "disabled", True)
    run(2_000)
    before, threads, files = resident_mb(), threading.active_count(), open_files()
    run(8_000)
    assert resident_mb() - before < 3
    # On a busy machine a call may find its slot's threads not back yet: a slot starts more, up to 16, as it needs them.
    assert threading.active_count() <= threads + 2 * 16
    assert open_files() <= files + 8


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20


def test_one_call_after_another_is_made_by_one_thread_however_many_there_are() -> None:
    threads = guarding.Threads("test")
    together, made_by = threading.Barrier(4), list[int]()
    for _ in range(3):
        threads.run(lambda: together.wait(20))
    together.wait(20)
    until(lambda: len(threads._idle) == 3)
    for _ in range(5):
        threads.run(lambda: made_by.append(threading.get_ident()))
        until(lambda: len(threads._idle) == 3)
    threads.close()
    assert (len(made_by), len(set(made_by))) == (5, 1)
