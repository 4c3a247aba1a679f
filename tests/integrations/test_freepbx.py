"""integrations/freepbx: the source under PHP, with tests/integrations/freepbx.php in CID Superfecta's place."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from tests import plugin
from tests.integrations.answers import ERRORS, answer, at_the_same_time, by_number, every_fault
from tests.integrations.vectors import NAMES, NATIONAL, NUMBERS, WRITTEN, by_settings
from tests.servers import Unavailable, free_port, required
from tests.upstream import Upstream, hangs, raw, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SOURCE = plugin.ROOT / "integrations" / "freepbx" / "source-Caller_Identification.module"
STAND_IN = plugin.ROOT / "tests" / "integrations" / "freepbx.php"
NUMBER = "+493023125555"
NO_SPAM = [False, 0]
#: The other systems' settings.
PARAMETERS = {
    "TOKEN": "Token",
    "COUNTRY_CODE": "Country_Code",
    "TRUNK_PREFIX": "Trunk_Prefix",
    "NATIONAL_DIGITS": "National_Digits",
    "INTERNATIONAL_PREFIX": "International_Prefix",
}


#: What Asterisk says about a call; a test run says nothing.
CALL = {"uniqueid": "1795411723.7", "callingpres": "0"}


def run(url: str, numbers: Iterable[str], call: Mapping[str, str] = CALL, /, **settings: str) -> list[dict[str, Any]]:
    """What the source returned for a call from each of the numbers."""
    with required():
        if shutil.which("php") is None:
            raise Unavailable("there is no php on PATH")
    parameters = {"Token": "a.b.c", "URL": url}
    parameters |= {PARAMETERS[name]: value for name, value in settings.items()}
    done = subprocess.run(
        ["php", "-d", "display_errors=stderr", str(STAND_IN), str(SOURCE), json.dumps(parameters), json.dumps(call)],
        input="".join(f"{number}\n" for number in numbers),
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_fault_gives_no_name(vendor: StartVendor) -> None:
    faults = every_fault()
    numbers = {f"49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number: faults[name] for number, name in numbers.items()}))
    results = at_the_same_time(lambda some: run(http.url, some), list(numbers))
    http.release()
    for name, result in zip(faults, results, strict=True):
        assert result["name"] is None, name
        assert result["spam"] == NO_SPAM, name
        assert all("Bakery" not in message and "a.b.c" not in message for message in result["printed"]), result
    assert len(http.bodies) == len(faults)  # no redirect was followed


def test_no_name_has_a_meaning_in_sip(vendor: StartVendor) -> None:
    names = {f"49302312{index:04}": name for index, (name, _) in enumerate(NAMES)}
    http = vendor(by_number({number: says(answer(name, spam=False)) for number, name in names.items()}))
    assert [(result["name"] or "") for result in run(http.url, names)] == [displayed for _, displayed in NAMES]


def test_numbers_are_searched_with_their_country_code(vendor: StartVendor) -> None:
    http = vendor(says(answer()))
    for settings, arrived in by_settings(NUMBERS + NATIONAL + WRITTEN):
        http.bodies.clear()
        assert [result["name"] for result in run(http.url, arrived, **settings)] == [None] * len(arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]


def test_spam_is_scored_with_and_without_a_name(vendor: StartVendor) -> None:
    http = vendor(says(answer(other="B", spam=True)))
    assert [(result["name"], result["spam"]) for result in run(http.url, [NUMBER])] == [("B", [True, 3])]
    http.behave_as(says(answer(spam=True)))
    assert [(result["name"], result["spam"]) for result in run(http.url, [NUMBER])] == [(None, [True, 3])]


@pytest.mark.parametrize("presentation", ["32", "67", "unknown"])
def test_withheld_numbers_are_not_searched(vendor: StartVendor, presentation: str) -> None:
    """As Asterisk's ${CALLINGPRES}: bits 5 and 6 are set."""
    http = vendor(says(answer("Example Bakery")))
    (result,) = run(http.url, [NUMBER], {**CALL, "callingpres": presentation})
    assert result == {"name": None, "spam": NO_SPAM, "printed": ["No name: the caller withholds the number"]}
    assert http.bodies == []


def debug_run(url: str, number: str = NUMBER, **settings: str) -> str:
    """What "Debug/Test Run Scheme" prints of the source."""
    (result,) = run(url, [number], {}, **settings)
    (printed,) = result["printed"]
    return str(printed)


def test_test_run_says_what_is_wrong(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    assert debug_run(http.url) == debug_run(f"{http.url}/") == "OK, 9 credits left"
    assert debug_run(http.url, "101") == "No name: not a number with a country code"
    assert debug_run(http.url, TOKEN="") == "No name: Token is not set"
    assert debug_run(f"http://127.0.0.1:{free_port()}") == "No name: Couldn't connect to server"
    for address in ("callerid.example.org", "https://", "ftp://callerid.example.org"):
        assert debug_run(address) == "No name: URL is not an address such as https://callerid.example.org"
    for behaviour, said in (
        (raw(b"<html>Sign in</html>"), "not an answer of the service"),
        (hangs, "no answer in time"),
        *((says({"detail": detail}, status), f"status {status}") for status, detail in ERRORS.items()),
    ):
        http.behave_as(behaviour)
        assert debug_run(http.url) == f"No name: {said}"
