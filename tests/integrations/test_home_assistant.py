"""integrations/home-assistant in Home Assistant's own script engine, where TEST_HOME_ASSISTANT names its Python.

`pip install homeassistant` needs a newer Python than Debian 12 has, so `.ci/run` tests the form of the package only.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import plugin
from tests.integrations.answers import ERRORS, answer, by_number, every_fault
from tests.integrations.vectors import GERMANY, NAMES, NATIONAL, NUMBERS, WRITTEN, by_settings
from tests.service import Service
from tests.upstream import Upstream, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
PACKAGE = plugin.ROOT / "integrations" / "home-assistant" / "callerid.yaml"
NUMBER = "+493023125555"
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """What the script returns for each number, which arrives as `tel:`; the log is in `tmp_path`."""
    python = os.environ.get("TEST_HOME_ASSISTANT")
    if not python:
        pytest.skip("TEST_HOME_ASSISTANT does not name a Python with Home Assistant")

    def run(url: str, numbers: list[str], *, call: str = "", token: str = "a.b.c", **settings: str) -> Any:
        payload = json.dumps({"api_key": token, "query": "{{ number }}"})
        secrets = {"callerid_url": f"{url}/callerid/search", "callerid_payload": payload}
        (tmp_path / "secrets.yaml").write_text(yaml.safe_dump(secrets))
        (tmp_path / "callerid.yaml").write_bytes(PACKAGE.read_bytes())
        calls = [{"number": f"tel:{number}", **({"call": call} if call else {})} for number in numbers]
        done = subprocess.run(
            [
                *(python, str(Path(__file__).with_name("home_assistant.py")), str(tmp_path)),
                json.dumps({name.lower(): value for name, value in settings.items()}),
            ],
            input="".join(json.dumps(data) + "\n" for data in calls),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (tmp_path / "log").write_text(done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_package_has_the_script_and_what_it_calls() -> None:
    class Loader(yaml.SafeLoader):
        """With Home Assistant's secrets."""

    Loader.add_constructor("!secret", lambda loader, node: f"secret {node.value}")
    package = yaml.load(PACKAGE.read_text(encoding="utf-8"), Loader)
    assert set(package) == {"rest_command", "logger", "script"}
    command = package["rest_command"]["callerid_search"]
    assert (command["method"], command["timeout"]) == ("post", 2)
    assert command["url"].startswith("secret ")
    assert command["payload"].startswith("secret ")  # the token is not in the package
    # Home Assistant would log the payload of a failed request, with the token.
    assert package["logger"]["logs"] == {"homeassistant.components.rest_command": "critical"}
    assert "action: rest_command.callerid_search" in PACKAGE.read_text(encoding="utf-8")


def test_name_and_spam_of_a_real_search(serve: Callable[..., Service], run: Run, tmp_path: Path) -> None:
    service = serve()
    service.manage("set_rule", NUMBER[1:], "--spam", "yes", "--name", "Müller & Söhne")
    key = service.manage("create_token", "telephone", "--credits", "1", "--quiet").strip()
    found = {"number": NUMBER[1:], "name": "Spam: Müller & Söhne", "spam": True, "said": "OK, 0 credits left"}
    for _ in range(2):  # charged once
        assert run(service.url, ["03023125555"], call="1", token=key, **GERMANY) == [found]
    (refused,) = run(service.url, ["+12125550123"], token=key)
    assert (refused["name"], refused["said"]) == ("", "status 403")
    assert key not in (tmp_path / "log").read_text()
    service.kill()
    (refused,) = run(service.url, ["+12125550123"], token=key)
    assert (refused["name"], refused["said"]) == ("", "no answer")
    assert key not in (tmp_path / "log").read_text()


def test_names_are_cleaned(run: Run, vendor: StartVendor) -> None:
    pairs = [*NAMES, ("12345", "12345"), ("['x']", "['x']"), ("{{ 1 + 1 }}", "{{ 1 + 1 }}")]
    names = {f"49302312{index:04}": pair for index, pair in enumerate(pairs)}
    http = vendor(by_number({number: says(answer(name, spam=False)) for number, (name, _) in names.items()}))
    results = run(http.url, [f"+{number}" for number in names])
    assert [result["name"] for result in results] == [displayed for _, displayed in names.values()]


def test_numbers_are_searched_with_their_country_code(run: Run, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    for settings, arrived in by_settings(NUMBERS + NATIONAL + WRITTEN):
        http.bodies.clear()
        results = run(http.url, list(arrived), **settings)
        assert [result["number"] for result in results] == list(arrived.values())
        searched = sorted(json.loads(body)["query"] for body in http.bodies)
        assert searched == sorted(query for query in arrived.values() if query)


def test_automation_goes_on_after_every_fault(run: Run, vendor: StartVendor) -> None:
    # aiohttp follows redirects.
    faults = {name: fault for name, fault in every_fault().items() if not name.startswith("301")}
    faults |= {f"error {status}": says({"detail": detail}, status) for status, detail in ERRORS.items()}
    numbers = {f"+49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number[1:]: faults[name] for number, name in numbers.items()}))
    results = run(http.url, list(numbers))
    http.release()
    named = {name: result for name, result in zip(faults, results, strict=True) if result["name"] or result["spam"]}
    # Home Assistant has no limit of size.
    assert set(named) <= {"more than fits", "1 MB of a name"}, named
