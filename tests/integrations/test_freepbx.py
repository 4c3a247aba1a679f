"""integrations/freepbx: the source under PHP, with tests/integrations/freepbx.php in CID Superfecta's place."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests import plugin
from tests.integrations.answers import answer, at_the_same_time, by_number, every_fault
from tests.integrations.vectors import GERMANY, NAMES, NORTH_AMERICA, NUMBERS
from tests.servers import Unavailable, required
from tests.upstream import Upstream, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
SOURCE = plugin.ROOT / "integrations" / "freepbx" / "source-Caller_Identification.module"
STAND_IN = plugin.ROOT / "tests" / "integrations" / "freepbx.php"
NUMBER = "+493023125555"
NO_SPAM = [False, 0]
#: The other systems' settings.
PARAMETERS = {
    "API_KEY": "API_Key",
    "COUNTRY_CODE": "Country_Code",
    "TRUNK_PREFIX": "Trunk_Prefix",
    "NATIONAL_DIGITS": "National_Digits",
    "INTERNATIONAL_PREFIX": "International_Prefix",
}


def run(url: str, numbers: Iterable[str], **settings: str) -> list[dict[str, Any]]:
    """What the source returned for a call from each of the numbers."""
    with required():
        if shutil.which("php") is None:
            raise Unavailable("there is no php on PATH")
    parameters = {"API_Key": "a.b.c", "URL": f"{url}/callerid/search"}
    parameters |= {PARAMETERS[name]: value for name, value in settings.items()}
    done = subprocess.run(
        ["php", "-d", "display_errors=stderr", str(STAND_IN), str(SOURCE), json.dumps(parameters)],
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
    for settings in (GERMANY, NORTH_AMERICA, {}):
        http.bodies.clear()
        arrived = {number: query for used, number, query in NUMBERS if used == settings}
        assert [result["name"] for result in run(http.url, arrived, **settings)] == [None] * len(arrived)
        searched = [json.loads(body) for body in http.bodies]
        assert searched == [{"api_key": "a.b.c", "query": query} for query in arrived.values() if query]


def test_spam_is_scored_with_and_without_a_name(vendor: StartVendor) -> None:
    http = vendor(says(answer(other="B", spam=True)))
    assert [(result["name"], result["spam"]) for result in run(http.url, [NUMBER])] == [("B", [True, 3])]
    http.behave_as(says(answer(spam=True)))
    assert [(result["name"], result["spam"]) for result in run(http.url, [NUMBER])] == [(None, [True, 3])]
