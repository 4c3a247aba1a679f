"""The event loop of vendor calls: both kinds of connectors, a blocked loop, forks, and the end of a process."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from lookup.answers import Answer, Failed, Found
from lookup.connectors import registry
from lookup.connectors.base import Connector
from lookup.search import search
from lookup.vendors import event_loop, json_api
from tests import connectors, upstream
from tests.api import NUMBER
from tests.lookup.vendors.searches import QUIET_FORK, answer_of, guard_of, until, words
from tests.mock_vendors import Vendors

pytestmark = pytest.mark.django_db
T = "tests.connectors."
ROOT = Path(__file__).parents[3]


class Remote(Connector):
    fields = frozenset({"name"})
    remote = True


class Asynchronous(Remote):
    thread = ""

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        await asyncio.sleep(0)
        Asynchronous.thread = threading.current_thread().name
        return Found(name=f"Name {timeout_s:g}")


def test_an_asynchronous_connector_runs_on_the_loop(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B, settings.CALL_LIFETIME_S = f"{__name__}.Asynchronous", T + "Knows", 7
    assert search(NUMBER).slots["source_a"].answer == Found(name="Name 7")
    assert Asynchronous.thread == "vendor-calls"


class NeverEnds(Remote):
    cancelled = threading.Event()

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


def test_an_asynchronous_call_is_cancelled_at_the_call_timeout(settings: Any) -> None:
    settings.CALL_LIFETIME_S = 0.1
    assert answer_of(NeverEnds(), NUMBER) == Failed("unavailable", "no complete reply within 0.1 s")
    assert NeverEnds.cancelled.wait(20)


class RaisesAnything(Remote):
    error: type[BaseException]

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        raise self.error(number)


class RaisesAnythingInAThread(RaisesAnything):
    def lookup(self, number: str, *, timeout_s: float) -> Any:
        raise self.error(number)


@pytest.mark.parametrize("connector", [RaisesAnything(), RaisesAnythingInAThread()], ids=["async", "thread"])
@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError, TimeoutError, StopIteration])
def test_whatever_a_connector_raises_is_a_failure(
    connector: RaisesAnything, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    connector.error = error
    answer = answer_of(connector, NUMBER)
    assert isinstance(answer, Failed)
    assert (answer.reason, NUMBER in caplog.text + answer.hint) == ("error", False)
    assert isinstance(answer_of(connectors.RemoteKnows(), NUMBER), Found)  # the loop still runs


class ExitsInATask(Remote):
    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        async def leave() -> None:
            raise SystemExit(1)

        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        asyncio.get_running_loop().stop()
        return Found(name=type(task.exception()).__name__)


def test_loop_runs_on_after_a_task_raised_system_exit() -> None:
    assert answer_of(ExitsInATask(), NUMBER) == Found(name="SystemExit")
    assert isinstance(answer_of(connectors.RemoteKnows(), NUMBER), Found)


class Blocks(Remote):
    released = threading.Event()

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        self.released.wait(20)
        return Found(name="Too Late")


def test_a_connector_that_blocks_the_loop_stalls_no_search(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.SOURCE_A, settings.SOURCE_B, settings.SEARCH_DEADLINE_S = f"{__name__}.Blocks", T + "Knows", 0.3
    try:
        assert words() == ("failed", "found")
        assert "the event loop of vendor calls is stalled" in caplog.text
    finally:
        Blocks.released.set()
    until(lambda: not guard_of(f"{__name__}.Blocks").in_flight)


def test_loop_that_cannot_start_fails_vendors_only(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    settings.SOURCE_A, settings.SOURCE_B = f"{T}RemoteKnows", f"{T}RemoteKnowsToo,{T}Knows"
    with monkeypatch.context() as patch:
        patch.setattr(event_loop, "_process_loop", None)
        patch.setattr(threading.Thread, "start", no_more)
        assert words() == ("failed", "found")
    assert words() == ("found", "found")


class LocalAsynchronous(Asynchronous):
    remote = False


def test_a_local_connector_cannot_be_asynchronous() -> None:
    with pytest.raises(ImproperlyConfigured, match="must not be `async`"):
        registry.get_member(f"{__name__}.LocalAsynchronous")


def test_a_large_reply_is_classified_off_the_loop(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    classify = json_api.JsonApi.classify

    def noted(self: json_api.JsonApi, reply: Any) -> json_api.Classification:
        threads.append(threading.current_thread().name)
        return classify(self, reply)

    monkeypatch.setattr(json_api.JsonApi, "classify", noted)
    vendors.a.behave_as(upstream.says({**upstream.GOOD_A, "padding": "x" * json_api.LARGE_BYTES}))
    assert words() == ("found", "found")
    assert sorted(threads) == ["vendor-calls", "vendor-worker"]


# --- Processes -------------------------------------------------------------------------------------------------------


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    named = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "callerid_project.settings", **environment}
    return subprocess.run(
        [sys.executable, *QUIET_FORK, "-c", program], cwd=ROOT, env=named, capture_output=True, text=True, timeout=60
    )


def test_a_child_has_a_loop_and_guards_of_its_own(tmp_path: Path) -> None:
    program = """
import django, os; django.setup()
from lookup.connectors import registry
from lookup.vendors import event_loop
from tests.lookup.vendors.searches import call
from lookup.connectors.registry import get_member
name = "tests.connectors.RemoteKnows"
parent = get_member(name)
assert call(parent.guard).result(20).answer
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    print("child ended")
else:
    mine = get_member(name)
    assert mine.guard is not parent.guard
    assert call(mine.guard).result(20).joined is False
    os._exit(0)
"""
    ended = run_python(program, DATA_DIR=str(tmp_path))
    assert (ended.stdout, ended.stderr, ended.returncode) == ("child ended\n", "", 0)


def test_calls_in_flight_do_not_delay_the_end_of_the_process(tmp_path: Path) -> None:
    program = """
import asyncio, socket, threading, time
import django; django.setup()
from lookup.vendors import event_loop
from lookup.vendors.addresses import policy_for
from lookup.vendors.transport import Client, Request
silent = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{silent.getsockname()[1]}"
call = Client("loopback").send(Request("GET", url, {}), max_body_bytes=9)
asyncio.run_coroutine_threadsafe(call, event_loop.process_loop().loop)
silent.accept()
event_loop.process_loop().threads.submit(lambda: time.sleep(600))
"""
    ended = run_python(program, DATA_DIR=str(tmp_path))
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
