"""Connectors on the event loop and in threads, and the end of a process."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from core import loop
from lookup.answers import Answer, Failed, Found
from lookup.connectors import blocking
from lookup.connectors.base import Connector, call_connector
from lookup.vendors import json_api
from tests import connectors, upstream
from tests.api import NUMBER
from tests.awaited import search
from tests.lookup.vendors.searches import answer_of, words
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
        return Found(name=f"Name {timeout_s:.0f}")


class LocalAsynchronous(Asynchronous):
    remote = False


@pytest.mark.parametrize(("connector", "name"), [(Asynchronous, "Name 7"), (LocalAsynchronous, "Name 20")])
def test_an_asynchronous_connector_runs_on_the_loop(settings: Any, connector: type[Connector], name: str) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"{__name__}.{connector.__name__}", T + "Knows"
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = 20, 7
    assert search(NUMBER).slots["source_a"].answer == Found(name=name)
    assert Asynchronous.thread == "event-loop"


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


class Raises(Remote):
    error: type[BaseException]

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        raise self.error(number)


class RaisesInAThread(Raises):
    def lookup(self, number: str, *, timeout_s: float) -> Any:
        raise self.error(number)


class LocalRaises(Raises):
    remote = False


class LocalRaisesInAThread(RaisesInAThread):
    remote = False


@pytest.mark.parametrize("connector", [Raises, RaisesInAThread, LocalRaises, LocalRaisesInAThread])
@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError, TimeoutError, StopIteration])
def test_whatever_a_connector_raises_is_a_failure(
    connector: type[Raises], error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    connector.error = error
    answer = answer_of(connector(), NUMBER)
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


class BlocksTheLoop(Remote):
    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        await asyncio.sleep(0)
        time.sleep(2 * blocking.BLOCKED_S)
        await asyncio.sleep(0)
        return Found(name="Late")


def test_a_connector_that_blocks_the_loop_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_logged_at", {})
    counted: list[str] = []
    monkeypatch.setattr(blocking.BLOCKED, "inc", counted.append)
    assert [answer_of(BlocksTheLoop(), NUMBER) for _ in range(2)] == [Found(name="Late")] * 2
    lines = [message for message in caplog.messages if "blocks the event loop" in message]
    assert len(lines) == 1  # once in a while
    assert lines[0].startswith("source blocks the event loop: connector=test ms=")
    assert counted == ["test", "test"]


class HangsInAThread(Remote):
    started, released = threading.Event(), threading.Event()

    def lookup(self, number: str, *, timeout_s: float) -> Answer:
        self.started.set()
        self.released.wait(20)
        return Found(name="Too Late")


class LocalHangsInAThread(HangsInAThread):
    remote = False
    started, released = threading.Event(), threading.Event()


@pytest.mark.parametrize("connector", [HangsInAThread, LocalHangsInAThread])
def test_a_connector_that_blocks_its_thread_holds_up_no_other(connector: type[HangsInAThread], settings: Any) -> None:
    hanging = asyncio.run_coroutine_threadsafe(call_connector("x", connector(), NUMBER, timeout_s=20), loop._get())
    assert connector.started.wait(20)
    settings.SOURCE_A, settings.SOURCE_B, settings.SEARCH_DEADLINE_S = T + "RemoteKnows", T + "Knows", 20
    try:
        assert words() == ("found", "found")
        assert not hanging.done()
    finally:
        connector.released.set()
    assert hanging.result(20) == Found(name="Too Late")


def test_a_large_reply_is_classified_off_the_loop(vendors: Vendors, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    classify = json_api.JsonApi.classify

    def noted(self: json_api.JsonApi, reply: Any, number: str) -> json_api.Classification:
        threads.append(threading.current_thread().name)
        return classify(self, reply, number)

    monkeypatch.setattr(json_api.JsonApi, "classify", noted)
    vendors.a.behave_as(upstream.says({**upstream.GOOD_A, "padding": "x" * json_api.LARGE_BYTES}))
    assert words() == ("found", "found")
    assert sorted(threads) == ["event-loop", "worker"]


# --- Processes -------------------------------------------------------------------------------------------------------


def test_calls_in_flight_do_not_delay_the_end_of_the_process(tmp_path: Path) -> None:
    program = """
import asyncio, socket, threading, time
import django; django.setup()
from core import loop
from core.addresses import policy_for
from lookup.vendors.transport import Client, Request
silent = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{silent.getsockname()[1]}"
call = Client("loopback").send(Request("GET", url, {}), max_body_bytes=9)
asyncio.run_coroutine_threadsafe(call, loop._get())
silent.accept()
loop._threads.submit(lambda: time.sleep(600))
"""
    environment = {"DJANGO_SETTINGS_MODULE": "callerid_project.settings", "DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 0)
