"""integrations/asterisk, freeswitch, freepbx and 3cx against the service itself."""

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import requests

from tests import plugin
from tests.integrations import test_asterisk, test_check, test_freepbx, test_freeswitch
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

NUMBER = "+493023125555"
NAME = "Musterhaus Advisors"


def test_scripts_show_names_that_the_service_finds(serve: Callable[..., Service]) -> None:
    """Each call twice, as after a failure of the telephone system: charged once."""
    service = serve()
    service.manage("set_rule", NUMBER.removeprefix("+"), "--spam", "yes", "--name", NAME)
    key = service.manage("create_token", "telephone", "--credits", "4", "--quiet").strip()

    for _ in range(2):
        assert test_asterisk.run(service.url, NUMBER, TOKEN=key) == [
            "SET VARIABLE CALLERID_SPAM yes",
            f'SET VARIABLE CALLERID(name) "Spam: {NAME}"',
        ]
    first, again = test_freeswitch.run(service.url, [NUMBER, NUMBER], TOKEN=key)
    assert first == again
    assert first["variables"] == {"caller_spam": "yes", "effective_caller_id_name": f"Spam {NAME}"}
    assert first["executed"] == [test_freeswitch.UNSET, "export nolocal:sip_h_X-Caller-Spam=yes"]
    first, again = test_freepbx.run(service.url, [NUMBER, NUMBER], TOKEN=key)
    assert first == again == {"name": NAME, "spam": [True, 3], "printed": ["OK, 1 credits left"]}

    answer = request_of_3cx(service.url, key, NUMBER.removeprefix("+"))
    assert answer == {"NameA": NAME, "NameB": NAME, "Place": None, "Spam": True}  # a place needs the numbering plan

    # No credit is left.
    other = "12125550123"
    assert test_asterisk.run(service.url, other, TOKEN=key) == [
        'VERBOSE "caller identification: no name, status 403" 1'
    ]
    (refused,) = test_freeswitch.run(service.url, [other], TOKEN=key)
    assert refused["log"] == ["caller identification: no name, status 403\n"]
    (refused,) = test_freepbx.run(service.url, [other], TOKEN=key)
    assert refused == {"name": None, "spam": [False, 0], "printed": ["No name: status 403"]}
    assert test_asterisk.check(service.url, TOKEN=key) == (1, "status 403\n")
    assert test_freeswitch.check(CALLERID_URL=service.url, CALLERID_TOKEN=key) == "status 403\n"
    assert test_check.check(URL=service.url, TOKEN=key) == (1, "status 403\n")
    # An address with the path, or of another page of the service.
    wrong = f"{service.url}/callerid/search"
    assert test_asterisk.check(wrong, TOKEN=key) == (1, "status 404\n")
    assert test_freeswitch.check(CALLERID_URL=wrong, CALLERID_TOKEN=key) == "status 404\n"
    assert test_check.check(URL=wrong, TOKEN=key) == (1, "status 404\n")
    assert test_freeswitch.check(CALLERID_URL=service.url, CALLERID_TOKEN="x") == "status 401\n"

    service.kill()
    assert test_asterisk.run(service.url, other, TOKEN=key) == [
        'VERBOSE "caller identification: no name, ConnectionRefusedError" 1'
    ]
    (refused,) = test_freeswitch.run(service.url, [other], TOKEN=key)
    assert refused["log"] == ["caller identification: no name, no answer\n"]
    (refused,) = test_freepbx.run(service.url, [other], TOKEN=key)
    assert refused["printed"] == ["No name: Couldn't connect to server"]


def request_of_3cx(url: str, key: str, number: str) -> dict[str, Any]:
    """What the template's variables get: its request is sent, and its paths are looked up in the answer."""
    template = ET.parse(plugin.ROOT / "integrations" / "3cx" / "callerid.xml").getroot()
    values = {"[Url]": url, "[Token]": key, "[Number]": number}
    assert {f"[{parameter.get('Name')}]" for parameter in template.iter("Parameter")} >= set(values) - {"[Number]"}
    (scenario,) = template.iter("Scenario")
    (request,) = scenario.iter("Request")
    assert (request.get("RequestType"), request.get("RequestEncoding")) == ("Post", "Json")
    address = str(request.get("Url")).replace("[Url]", url)
    response = requests.post(
        address, json={value.get("Key"): values[str(value.text)] for value in request.iter("Value")}, timeout=30
    )
    assert response.status_code == 200, response.text
    assert at_path(response.json(), str(scenario.findtext("Rules/Rule"))) == number
    return {str(v.get("Name")): at_path(response.json(), str(v.get("Path"))) for v in scenario.iter("Variable")}


def at_path(answer: Any, path: str) -> Any:
    for name in path.split("."):
        answer = answer.get(name)
    return answer
