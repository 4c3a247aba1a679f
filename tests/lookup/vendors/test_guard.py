"""The guard: single flight, concurrency limit, circuit breaker, and recovery."""

import asyncio
import logging
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.db import connection

from callerid_project.logging import request_id
from core import loop
from lookup.answers import Answer, Failed, Found, NotFound
from lookup.connectors.base import Connector
from lookup.vendors import cache
from lookup.vendors import guard as guarding
from tests import connectors, upstream
from tests.api import NUMBER
from tests.awaited import search
from tests.counted import counted_calls
from tests.lookup.vendors.searches import call, guard_of, in_flight, numbers, until, words
from tests.mock_vendors import PRESETS, Vendors
from tests.upstream import hangs, raw, says

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_deadline")]
T = "tests.connectors."


# --- Single flight and concurrency limit ----------------------------------------------------------------------------


def test_concurrent_searches_for_one_number_share_one_call(
    vendors: Vendors, transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.SEARCH_DEADLINE_S = 20  # no timeouts, however busy the machine
    counted = counted_calls(monkeypatch)
    together = threading.Barrier(8)
    vendors.a.behave_as(upstream.slow(0.1, says(upstream.GOOD_A)))
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
    assert Counter(call.outcome for _, call in counted) == {"found": 2, "cached_found": 14}


def test_connector_in_both_slots_is_called_once(settings: Any) -> None:
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
def test_failed_call_shared_by_both_slots_counts_once(
    vendors: Vendors, settings: Any, monkeypatch: pytest.MonkeyPatch, behaviour: Any, reason: str, deadline_s: float
) -> None:
    settings.SEARCH_DEADLINE_S = settings.CALL_LIFETIME_S = deadline_s
    counted = counted_calls(monkeypatch)
    settings.SOURCE_B = settings.SOURCE_A
    vendors.a.behave_as(behaviour)
    search(NUMBER)
    assert sorted(call.outcome for _, call in counted) == sorted([reason, f"shared_{reason}"])


class CancelsItself(Connector):
    fields = frozenset({"name"})
    remote = True
    calls = 0

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        type(self).calls += 1
        if self.calls > 1:
            return Found(name="Name")
        task = asyncio.current_task()
        assert task
        task.cancel()
        await asyncio.sleep(0)
        raise AssertionError


def test_connector_that_cancels_its_task_has_failed_once(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.CancelsItself", T + "Knows"
    answers = [search(NUMBER).slots["source_a"].answer for _ in range(2)]
    assert [type(answer) for answer in answers] == [Failed, Found]


def test_call_under_an_earlier_cache_version_is_not_joined() -> None:
    guard = guard_of(T + "Hangs")
    early, late, joined = (call(guard, cache_version=version) for version in ("early", "late", "late"))
    until(lambda: len(connectors.Hangs.calls) == 2)
    connectors.Hangs.released.set()
    known = Found(name="Too Late", location="Too Late", spam=True)
    assert [each.result(20) for each in (early, late, joined)] == [(known, False), (known, False), (known, True)]
    assert connectors.Hangs.calls == [NUMBER] * 2


def test_calls_beyond_the_concurrency_limit_fail_as_busy(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "FAILURES", 1000)
    vendors.a.behave_as(hangs)
    guard = guard_of("mock_a")
    calls = [call(guard, number, wait_s=0.1) for number in numbers(20)]
    assert Counter(each.result(20)[0] for each in calls) == {guarding.LATE: 16, guarding.BUSY: 4}
    until(lambda: not in_flight(guard))  # the calls have timed out
    vendors.a.behave_as(says(upstream.GOOD_A))
    assert words("12025559999") == ("found", "found")


class One(connectors.RemoteKnows):
    concurrency = 1


def test_a_call_beyond_the_concurrency_limit_waits_for_its_turn() -> None:
    guard = guard_of(f"{__name__}.One")
    answers = [each.result(20)[0] for each in [call(guard, number) for number in numbers(5)]]
    assert all(isinstance(answer, Found) for answer in answers), answers
    assert in_flight(guard) == 0


class Joinable(connectors.RemoteKnows):
    """For one test."""


def test_an_answer_that_is_being_cached_is_joined(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """The failing sequence: a search reads the cache, another's call ends and is cached, the first calls again."""
    guard = guard_of(f"{__name__}.Joinable")
    monkeypatch.setattr(cache.AnswerCache, "put", lambda *args: None)
    first, second = (call(guard).result(20) for _ in range(2))
    assert (first, second) == ((first[0], False), (first[0], True))
    assert Joinable.calls == [NUMBER]


class NeverCached(connectors.RemoteKnows):
    hit_ttl_s = 0


def test_an_answer_that_is_not_cached_is_not_joined() -> None:
    guard = guard_of(f"{__name__}.NeverCached")
    assert [call(guard).result(20)[1] for _ in range(2)] == [False, False]
    assert NeverCached.calls == [NUMBER] * 2


def test_a_thread_that_cannot_start_fails_one_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = guard_of(f"{__name__}.One")

    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    call(guard, "12025550100").result(20)  # the loop's own thread runs
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_threads", loop.DaemonThreads())
        patch.setattr(threading.Thread, "start", no_more)
        assert call(guard).result(20)[0] == Failed("error", "it raised RuntimeError")
    assert in_flight(guard) == 0
    assert isinstance(call(guard).result(20)[0], Found)


@pytest.mark.parametrize(("key", "calls"), [("number_specific = true\n", 8), ("", guarding.FAILURES)])
def test_number_specific_failures_do_not_open_the_breaker(
    vendors: Vendors, settings: Any, tmp_path: Path, key: str, calls: int
) -> None:
    rule = f'[[outcome]]\nstatus = [200]\nwhen = "status == `5`"\nis = "unavailable"\n{key}\n'
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text.replace("[[outcome]]", f"{rule}[[outcome]]", 1), encoding="utf-8")
    settings.PRESET_DIR, settings.SOURCE_B, settings.SEARCH_DEADLINE_S = str(tmp_path), "complaints", 20
    vendors.a.behave_as(says({"status": 5}))
    assert [words(number)[0] for number in numbers(8)] == ["failed"] * 8
    assert len(vendors.a.heads) == calls


def test_log_line_of_a_call_has_the_request_id(vendors: Vendors, caplog: pytest.LogCaptureFixture) -> None:
    vendors.a.behave_as(raw(b"", 500))
    ids: list[str] = []

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ids.append(request_id.get())

    handler, logger = Noted(), logging.getLogger("lookup.vendors.guard")
    logger.addHandler(handler)
    token = request_id.set("the-id-of-this-request")
    try:
        words()
        until(lambda: ids)
    finally:
        request_id.reset(token)
        logger.removeHandler(handler)
    assert ids == ["the-id-of-this-request"]


class NotesRequestID(connectors.RemoteKnows):
    ids: ClassVar[list[str]] = []

    def answer(self, number: str, timeout_s: float) -> Answer:
        self.ids.append(request_id.get())
        return NotFound()


def test_connector_in_a_thread_has_the_request_id() -> None:
    token = request_id.set("the-id-of-this-request")
    try:
        call(guard_of(f"{__name__}.NotesRequestID")).result(20)
    finally:
        request_id.reset(token)
    assert NotesRequestID.ids == ["the-id-of-this-request"]


# --- The breaker ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["resets", "hangs before headers", "500", "HTML with 200"])
def test_no_call_is_made_after_5_failures(vendors: Vendors, fault: str) -> None:
    vendors.a.behave_as(upstream.FAULTS[fault][0])
    assert [words(number) for number in numbers(5)] == [("failed", "found")] * 5
    until(lambda: guard_of("mock_a").breaker.is_open)
    assert [words(number) for number in numbers(8)[5:]] == [("failed", "found")] * 3
    assert len(vendors.a.heads) == 5
    assert len(vendors.b.heads) == 8


@pytest.mark.parametrize("status", [401, 402, 403])
def test_rejected_key_or_exhausted_quota_stops_calls(vendors: Vendors, status: int) -> None:
    vendors.a.behave_as(raw(b"", status))
    for number in numbers(3):
        words(number)
    assert len(vendors.a.heads) == 1
    assert in_flight(guard_of("mock_a")) == 0


def test_cached_answer_is_used_while_the_breaker_is_open(vendors: Vendors) -> None:
    words()
    vendors.a.behave_as(raw(b"", 401))
    assert words("12025550000")[0] == "failed"
    assert words()[0] == "found"


def test_slot_recovers_after_its_limit_was_reached(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "OPEN_S", 0.5)
    vendors.a.behave_as(upstream.drips_body)
    guard = guard_of("mock_a")
    calls = [call(guard, number, wait_s=0.3) for number in numbers(16)]
    assert {each.result(20)[0] for each in calls} == {guarding.LATE}
    assert in_flight(guard) == 16
    until(lambda: guard.breaker.is_open)
    vendors.a.behave_as(says(upstream.GOOD_A))
    fresh = iter(range(12025560000, 12025570000))
    until(lambda: words(str(next(fresh))) == ("found", "found"))
    assert not guard.breaker.is_open


@pytest.mark.parametrize(("value", "pause_s"), [("300", 300), ("7200", 600)])
def test_breaker_stays_open_for_retry_after(vendors: Vendors, value: str, pause_s: float) -> None:
    vendors.a.behave_as(raw(b"", 429, f"Retry-After: {value}\r\n"))
    words()
    guard = guard_of("mock_a")
    assert guard.breaker.open_until is not None
    assert pause_s - 100 < guard.breaker.open_until - time.monotonic() <= pause_s


# --- Over many calls -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.once
def test_4000_faulty_searches_leak_nothing(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "OPEN_S", 0.0)  # every search makes its call
    quick = ["resets", "stops short", "not HTTP", "HTML with 200", "deep JSON", "wrong types", "204", "301", "500"]
    faults = [upstream.FAULTS[name][0] for name in quick]

    def run(count: int) -> None:
        for n in range(count):
            vendors.a.behave = vendors.b.behave = faults[n % len(faults)]
            assert words(str(12025550000 + n)) == ("failed", "failed")
            for vendor in (vendors.a, vendors.b):
                vendor.heads.clear()
                vendor.bodies.clear()

    monkeypatch.setattr(logging.getLogger("lookup"), "disabled", True)  # captured log lines would be measured
    for name in ("vendors.guard", "connectors.base"):
        monkeypatch.setattr(logging.getLogger(f"lookup.{name}"), "disabled", True)
    run(1_000)
    before, threads, files = resident_mb(), threading.active_count(), open_files()
    run(3_000)
    # 1 KB for each of 6,000 calls: less than any object that a call could leave behind (a future, a reply, a socket).
    assert resident_mb() - before < 6
    assert threading.active_count() <= threads + 2
    assert open_files() <= files + 8


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20
