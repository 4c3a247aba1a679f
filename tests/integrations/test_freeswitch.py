"""integrations/freeswitch: the script under Lua, with tests/integrations/freeswitch.lua in FreeSWITCH's place.

Its mod_curl is that of FreeSWITCH 1.10, which reads ten words, or of 1.11, which reads 30.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests import plugin
from tests.integrations.answers import ERRORS, answer, at_the_same_time, by_number, every_fault
from tests.integrations.vectors import NAMES, NATIONAL, NUMBERS, WRITTEN, by_settings
from tests.servers import Unavailable, free_port, required
from tests.upstream import Upstream, raw, resets, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SCRIPT = plugin.ROOT / "integrations" / "freeswitch" / "callerid.lua"
STAND_IN = plugin.ROOT / "tests" / "integrations" / "freeswitch.lua"
NUMBER = "+493023125555"
#: A second of its time limits is longer, so that a busy machine passes no limit.
STAND_IN_1_10 = {"FREESWITCH": "1.10", "SECOND": "30"}
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


def run(
    url: str,
    numbers: Sequence[str],
    hidden: str = "false",
    stand_in: Mapping[str, str] = STAND_IN_1_10,
    /,
    **settings: str,
) -> list[dict[str, Any]]:
    """What the script did for a call from each of the numbers."""
    environment = {f"CALLERID_{name}": value for name, value in {"TOKEN": "a.b.c", **settings}.items()}
    environment |= stand_in
    lines = "".join(f"{number}\t{hidden}\n" for number in numbers)
    output = lua(str(STAND_IN), str(SCRIPT), stdin=lines, CALLERID_URL=url, **environment)
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
    # mod_curl follows redirects, unlike the others. Only the body tells an error from an answer: see the next test.
    left_out = {"301", "301 with a bomb"} | {name for name in faults if name.isdigit()}
    numbers = {f"49302312{index:04}": name for index, name in enumerate(faults) if name not in left_out}
    http = vendor(by_number({number: faults[name] for number, name in numbers.items()}))
    results = at_the_same_time(lambda some: run(http.url, some, "false", {"FREESWITCH": "1.10"}), list(numbers))
    http.release()
    for name, result in zip(numbers.values(), results, strict=True):
        assert displayed(result) == "", name
        assert all("no name" in message and "Bakery" not in message for message in result["log"]), result
    assert len(results) == len(numbers)


@pytest.mark.parametrize("version", ["1.10", "1.11"])
def test_each_release_sends_one_complete_search(vendor: StartVendor, version: str) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert [
        displayed(result) for result in run(f"{http.url}/", [NUMBER], "false", STAND_IN_1_10 | {"FREESWITCH": version})
    ] == ["Example Bakery"]
    assert [json.loads(body) for body in http.bodies] == [{"api_key": "a.b.c", "query": NUMBER[1:]}]
    (head,) = http.heads
    assert head.startswith(b"POST /callerid/search HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in head
    assert f"\r\nIdempotency-Key:freeswitch-b2bf3b0a-{NUMBER[1:]}\r\n".encode() in head


def test_errors_of_the_service_are_logged(vendor: StartVendor) -> None:
    http = vendor(resets)
    for status, detail in ERRORS.items():
        http.behave_as(says({"detail": detail}, status))
        (result,) = run(http.url, [NUMBER])
        assert displayed(result) == ""
        assert result["log"] == [f"caller identification: no name, status {status}\n"]


def test_https_is_verified(vendor: StartVendor, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    url = vendor(says(answer("Example Bakery")), context).url.replace("127.0.0.1", "localhost")
    assert [displayed(result) for result in run(url, [NUMBER])] == [""]
    trusting = STAND_IN_1_10 | {"CURL_CA_BUNDLE": str(tmp_path / "ca.pem")}
    assert [displayed(result) for result in run(url, [NUMBER], "false", trusting)] == ["Example Bakery"]


def check(*arguments: str, **environment: str) -> str:
    """What `fs_cli -x "lua callerid.lua check"` prints."""
    return lua(
        str(STAND_IN), str(SCRIPT), "check", *arguments, **{"CALLERID_TOKEN": "a.b.c", **STAND_IN_1_10, **environment}
    )


def test_check_says_what_is_wrong(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert check(CALLERID_URL=http.url) == "OK, 9 credits left\n"
    assert json.loads(http.bodies[0])["query"] == "12025550143"
    assert check("03023125555", CALLERID_URL=http.url, CALLERID_COUNTRY_CODE="49", CALLERID_TRUNK_PREFIX="0") == (
        "OK, 9 credits left\n"
    )
    assert json.loads(http.bodies[1])["query"] == "493023125555"
    assert check("101", CALLERID_URL=http.url) == "not a number with a country code\n"
    assert check(CALLERID_URL=http.url, CALLERID_TOKEN="") == "CALLERID_TOKEN is not set\n"
    assert check(CALLERID_URL=http.url, WITHOUT_MOD_CURL="1") == "mod_curl is not loaded\n"
    assert check(CALLERID_URL=f"http://127.0.0.1:{free_port()}") == "no answer\n"
    for address in ("callerid.example.org", "https://", "http://callerid.example.org/ x"):
        assert check(CALLERID_URL=address).startswith("CALLERID_URL is not an address such as https://")
    http.behave_as(raw(b"<html>Sign in</html>"))
    assert check(CALLERID_URL=http.url) == "not an answer of the service\n"
    for status, detail in ERRORS.items():
        http.behave_as(says({"detail": detail}, status))
        assert check(CALLERID_URL=http.url) == f"status {status}\n"


def test_no_name_has_a_meaning_in_sip(vendor: StartVendor) -> None:
    names = {f"49302312{index:04}": name for index, (name, _) in enumerate(NAMES)}
    http = vendor(by_number({number: says(answer(name, spam=False)) for number, name in names.items()}))
    results = run(http.url, list(names))
    # FreeSWITCH refuses a value with a variable in it, and takes a name for an address.
    expected = [re.sub(" +", " ", re.sub(r"\$[{]|[/:@]", " ", name)) for _, name in NAMES]
    assert [displayed(result) for result in results] == expected


def test_numbers_are_searched_with_their_country_code(vendor: StartVendor) -> None:
    http = vendor(says(answer()))
    for settings, arrived in by_settings(NUMBERS + NATIONAL + WRITTEN):
        http.bodies.clear()
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
