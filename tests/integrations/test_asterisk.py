"""integrations/asterisk: the AGI script with every fault. test_asterisk_calls.py runs it in Asterisk."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests import plugin
from tests.integrations.answers import ERRORS, answer, by_number, every_fault
from tests.integrations.vectors import GERMANY, NAMES, NATIONAL, NUMBERS, WRITTEN
from tests.servers import free_port
from tests.upstream import Upstream, hangs, raw, resets, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SCRIPT = plugin.ROOT / "integrations" / "asterisk" / "callerid.py"
#: Far longer than the script may take, also on a busy machine.
LIMIT_S = 60
NUMBER = "+493023125555"


class Agi:
    """One run of the script. `commands`: what it sent, each of which was answered."""

    def __init__(self, url: str, caller: str, presentation: str = "0", **settings: str) -> None:
        environment = {f"CALLERID_{name}": value for name, value in {"TOKEN": "a.b.c", **settings}.items()}
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env={"PATH": os.environ["PATH"], "CALLERID_URL": url, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            bufsize=1,
        )
        assert self._process.stdin
        self._process.stdin.write(
            f"agi_request: callerid.py\nagi_channel: PJSIP/trunk-1\nagi_uniqueid: 1795411723.7\n"
            f"agi_callerid: {caller}\nagi_calleridname: unknown\nagi_callingpres: {presentation}\n"
            "agi_context: callerid-incoming\nagi_extension: 100\nagi_priority: 2\nagi_arg_1: x\n\n"
        )

    def result(self) -> list[str]:
        assert self._process.stdin
        assert self._process.stdout
        commands = []
        for line in self._process.stdout:
            commands.append(line.removesuffix("\n"))
            self._process.stdin.write("200 result=1\n")
        _, errors = self._process.communicate(timeout=LIMIT_S)
        assert (self._process.returncode, errors) == (0, "")
        return commands


def run(url: str, caller: str, presentation: str = "0", **settings: str) -> list[str]:
    return Agi(url, caller, presentation, **settings).result()


def test_every_fault_sets_no_variable(vendor: StartVendor) -> None:
    faults = every_fault()
    numbers = {f"49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number: faults[name] for number, name in numbers.items()}))
    commands: dict[str, list[str]] = {}
    waiting = list(numbers.items())
    while waiting:
        some, waiting = waiting[:6], waiting[6:]  # at the same time
        running = {name: Agi(http.url, number) for number, name in some}
        commands |= {name: script.result() for name, script in running.items()}
    http.release()
    assert set(commands) == set(faults)
    for name, sent in commands.items():
        assert [command for command in sent if "SET VARIABLE" in command] == [], name
        assert all(re.fullmatch(r'VERBOSE "caller identification: no name, [\w -]+" 1', line) for line in sent), sent


def check(url: str, *arguments: str, **settings: str) -> tuple[int, str]:
    """Exit code and output of `callerid.py --check`."""
    environment = {f"CALLERID_{name}": value for name, value in {"URL": url, "TOKEN": "a.b.c", **settings}.items()}
    command = [sys.executable, str(SCRIPT), "--check", *arguments]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_check_says_what_is_wrong(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert check(http.url) == check(f"{http.url}/", "03023125555", **GERMANY) == (0, "OK, 9 credits left\n")
    assert [json.loads(body)["query"] for body in http.bodies] == ["12025550143", "493023125555"]
    assert check(http.url, "101") == (1, "not a number with a country code\n")
    assert check(http.url, TOKEN="") == (1, "CALLERID_TOKEN is not set\n")
    assert check(f"http://127.0.0.1:{free_port()}") == (1, "ConnectionRefusedError\n")
    for address in ("callerid.example.org", "https://", "ftp://callerid.example.org"):
        assert check(address) == (1, "CALLERID_URL is not an address such as https://callerid.example.org\n")
    for behaviour, said in (
        (raw(b"<html>Sign in</html>"), "not an answer of the service"),
        (hangs, "no answer in time"),
        *((says({"detail": detail}, status), f"status {status}") for status, detail in ERRORS.items()),
    ):
        http.behave_as(behaviour)
        assert check(http.url) == (1, f"{said}\n")


def test_no_name_can_break_a_command(vendor: StartVendor) -> None:
    http = vendor(resets)
    for name, displayed in NAMES:
        http.behave_as(says(answer(name, spam=False)))
        expected = [f'SET VARIABLE CALLERID(name) "{displayed}"'] if displayed else []
        assert run(http.url, NUMBER) == expected


def test_numbers_are_searched_with_their_country_code(vendor: StartVendor) -> None:
    http = vendor(says(answer()))
    for settings, caller, query in NUMBERS:
        http.bodies.clear()
        assert run(http.url, caller, **settings) == []
        assert [json.loads(body) for body in http.bodies] == ([{"api_key": "a.b.c", "query": query}] if query else [])


@pytest.mark.parametrize(("given", "caller", "query"), NATIONAL + WRITTEN)
def test_national_and_written_numbers_are_completed(
    given: dict[str, str], caller: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"CALLERID_{name}", value)
    assert runpy.run_path(str(SCRIPT))["full_number"](caller) == query


@pytest.mark.parametrize(
    ("caller", "presentation"),
    [("unknown", "0"), ("+493023125555", "32"), ("+493023125555", "67"), ("+493023125555", "²")],
)
def test_withheld_numbers_are_not_searched(vendor: StartVendor, caller: str, presentation: str) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert run(http.url, caller, presentation) == []
    assert http.bodies == []


def test_second_source_and_spam_without_a_name(vendor: StartVendor) -> None:
    http = vendor(says(answer(other="B")))
    assert run(http.url, "03023125555", **GERMANY) == ['SET VARIABLE CALLERID(name) "B"']
    http.behave_as(says(answer(spam=True)))
    assert run(http.url, "03023125555", SPAM_MARK="? ", **GERMANY) == [
        "SET VARIABLE CALLERID_SPAM yes",
        'SET VARIABLE CALLERID(name) "? +493023125555"',
    ]
