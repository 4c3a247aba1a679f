"""integrations/freeswitch: the script under Lua, with tests/integrations/freeswitch.lua in FreeSWITCH's place."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests import plugin
from tests.integrations.answers import answer, at_the_same_time, by_number, every_fault
from tests.integrations.vectors import GERMANY, NAMES, NORTH_AMERICA, NUMBERS
from tests.servers import Unavailable, required
from tests.upstream import Upstream, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SCRIPT = plugin.ROOT / "integrations" / "freeswitch" / "callerid.lua"
STAND_IN = plugin.ROOT / "tests" / "integrations" / "freeswitch.lua"
NUMBER = "+493023125555"
#: Of every call: what a caller sent is not passed on.
UNSET = "unset sip_h_X-Caller-Spam"


def lua(*arguments: str, stdin: str = "", **environment: str) -> str:
    with required():
        if shutil.which("lua5.4") is None:
            raise Unavailable("there is no lua5.4 on PATH")
    done = subprocess.run(
        ["lua5.4", *arguments],
        input=stdin,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run(url: str, numbers: Sequence[str], hidden: str = "false", **settings: str) -> list[dict[str, Any]]:
    """What the script did for a call from each of the numbers."""
    environment = {f"CALLERID_{name}": value for name, value in {"API_KEY": "a.b.c", **settings}.items()}
    lines = "".join(f"{number}\t{hidden}\n" for number in numbers)
    output = lua(str(STAND_IN), str(SCRIPT), stdin=lines, CALLERID_URL=f"{url}/callerid/search", **environment)
    return [json.loads(line) for line in output.splitlines()]


def displayed(result: dict[str, Any]) -> str:
    """The name. Nothing else was done."""
    assert result["executed"] == [UNSET]
    variables = dict(result["variables"])
    name: str = variables.pop("effective_caller_id_name", "")
    assert variables == {}
    return name


def test_every_fault_sets_no_name(vendor: StartVendor) -> None:
    faults = every_fault()
    # mod_curl follows redirects, unlike the others, and FreeSWITCH's 64,000 bytes are more than any of our answers.
    left_out = {"301", "301 with a bomb"}
    numbers = {f"49302312{index:04}": name for index, name in enumerate(faults) if name not in left_out}
    http = vendor(by_number({number: faults[name] for number, name in numbers.items()}))
    results = at_the_same_time(lambda some: run(http.url, some), list(numbers))
    http.release()
    for name, result in zip(numbers.values(), results, strict=True):
        assert displayed(result) == "", name
        assert all("no name" in message and "Bakery" not in message for message in result["log"]), result
    assert len(results) == len(numbers)


def test_no_name_has_a_meaning_in_sip(vendor: StartVendor) -> None:
    names = {f"49302312{index:04}": name for index, (name, _) in enumerate(NAMES)}
    http = vendor(by_number({number: says(answer(name, spam=False)) for number, name in names.items()}))
    results = run(http.url, list(names))
    # FreeSWITCH refuses a value with a variable in it, so the script removes what begins one.
    expected = [name.replace("${", " ").replace("  ", " ") for _, name in NAMES]
    assert [displayed(result) for result in results] == expected


def test_numbers_are_searched_with_their_country_code(vendor: StartVendor) -> None:
    http = vendor(says(answer()))
    for settings in (GERMANY, NORTH_AMERICA, {}):
        http.bodies.clear()
        arrived = {number: query for used, number, query in NUMBERS if used == settings}
        assert [displayed(result) for result in run(http.url, list(arrived), **settings)] == [""] * len(arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]


def test_withheld_number_is_not_searched(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert [displayed(result) for result in run(http.url, [NUMBER], "true")] == [""]
    assert http.bodies == []


def test_second_source_and_spam_without_a_name(vendor: StartVendor) -> None:
    http = vendor(says(answer(other="B")))
    assert [displayed(result) for result in run(http.url, [NUMBER])] == ["B"]
    http.behave_as(says(answer(spam=True)))
    (spam,) = run(http.url, [NUMBER], SPAM_MARK="? ")
    assert spam["variables"]["effective_caller_id_name"] == f"? {NUMBER}"
