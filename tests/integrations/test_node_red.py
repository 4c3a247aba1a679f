"""integrations/node-red: its functions under Node.js, and the flow in Node-RED itself where TEST_NODE_RED names it.

TEST_NODE_RED is a directory in which `npm install node-red@4` ran. `.ci/run` does not install its 240 packages.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from tests import plugin
from tests.integrations.answers import ERRORS, answer, at_the_same_time, by_number, every_fault
from tests.integrations.vectors import GERMANY, NAMES, NATIONAL, NUMBERS, WRITTEN, by_settings
from tests.servers import Server, Unavailable, required
from tests.service import Service
from tests.upstream import Upstream, raw

pytestmark = [pytest.mark.once, pytest.mark.slow]

StartVendor = Callable[..., Upstream]
FLOW = plugin.ROOT / "integrations" / "node-red" / "callerid.json"
STAND_IN = Path(__file__).with_name("node_red.js")
NUMBER = "+493023125555"


def run(function: str, messages: list[dict[str, Any]], **settings: str) -> list[dict[str, Any]]:
    """What a function node returned for each message, and its warnings."""
    with required():
        if shutil.which("node") is None:
            raise Unavailable("there is no node on PATH")
    environment = {f"CALLERID_{name}": value for name, value in {"TOKEN": "a.b.c", **settings}.items()}
    done = subprocess.run(
        ["node", str(STAND_IN), str(FLOW), function],
        input="".join(json.dumps(message) + "\n" for message in messages),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def search(caller: str, **settings: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    (result,) = run("search", [{"payload": caller, "call": "call-1", "_msgid": "m"}], **settings)
    request, other = result["returned"]
    return request, other


def answered(content: dict[str, object] | str, status: int | str = 200, **settings: str) -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    caller = {"number": NUMBER[1:], "name": "", "spam": False, "said": "", "payload": "before"}
    message = {"payload": text, "statusCode": status, "caller": caller, "headers": {"x": "y"}}
    (result,) = run("answer", [message], **settings)
    returned: dict[str, Any] = result["returned"]
    assert returned["payload"] == "before"
    assert set(returned) == {"payload", "caller"}
    assert bool(result["warnings"]) != returned["caller"]["said"].startswith("OK")
    caller = returned["caller"]
    assert set(caller) == {"number", "name", "spam", "said"}
    return caller


def test_numbers_are_searched_with_their_country_code() -> None:
    for settings, arrived in by_settings(NUMBERS + NATIONAL + WRITTEN):
        messages = [{"payload": caller, "call": "call-1", "_msgid": "m"} for caller in arrived]
        results = run("search", messages, URL="http://192.0.2.1/", **settings)
        for (caller, query), result in zip(arrived.items(), results, strict=True):
            request, other = result["returned"]
            if query:
                assert request, caller
                assert other is None
                assert request["url"] == "http://192.0.2.1/callerid/search"
                assert json.loads(request["payload"]) == {"api_key": "a.b.c", "query": query}
                assert request["headers"]["Idempotency-Key"] == f"node-red-{query}-call-1"
            else:
                assert request is None, caller
                assert other
                assert other["caller"]["said"] == "not a number with a country code"
                assert other["payload"] == caller


def test_names_and_answers() -> None:
    for name, displayed in NAMES:
        caller = answered(answer(name, spam=False))
        assert (caller["name"], caller["spam"], caller["said"]) == (displayed, False, "OK, 9 credits left")
    assert answered(answer(other="B"))["name"] == "B"
    spam = answered(answer(spam=True), SPAM_MARK="? ")
    assert (spam["name"], spam["spam"]) == (f"? {NUMBER}", True)
    for status, detail in ERRORS.items():
        assert answered({"detail": detail}, status)["said"] == f"status {status}"
    assert answered("RequestError: connect ECONNREFUSED a.b.c", "ECONNREFUSED")["said"] == "no answer"
    for other in ("", "<html>", "[]", '{"data": []}', '{"data": null}', "x" * 9000):
        assert answered(other)["said"] == "not an answer of the service"


def test_check_says_what_is_wrong() -> None:
    for settings, said in (
        ({"TOKEN": ""}, "CALLERID_TOKEN is not set"),
        ({"URL": "callerid.example.org"}, "CALLERID_URL is not an address such as https://callerid.example.org"),
    ):
        request, other = search("+12025550143", **settings)
        assert request is None
        assert other
        assert other["caller"]["said"] == said


class NodeRed(Server):
    """The flow, and one that calls it: GET /caller?number=...&call=... answers with the message."""

    def __init__(self, **settings: str) -> None:
        super().__init__()
        directory = os.environ.get("TEST_NODE_RED")
        if not directory:
            pytest.skip("TEST_NODE_RED does not name a directory with Node-RED")
        self._program = Path(directory) / "node_modules" / "node-red" / "red.js"
        self._settings = [f"CALLERID_{name}={value}" for name, value in {"TOKEN": "a.b.c", **settings}.items()]
        take = "msg.payload = msg.req.query.number; msg.call = msg.req.query.call; return msg;"
        give = "return {req: msg.req, res: msg.res, payload: {payload: msg.payload, caller: msg.caller}};"
        function = {"type": "function", "z": "t", "outputs": 1, "libs": []}
        caller = [
            {"id": "t", "type": "tab", "label": "test"},
            {"id": "t1", "type": "http in", "z": "t", "url": "/caller", "method": "get", "wires": [["t2"]]},
            {"id": "t2", "func": take, "wires": [["t3"]], **function},
            {"id": "t3", "type": "link call", "z": "t", "links": ["callerid_in"], "timeout": "30", "wires": [["t4"]]},
            {"id": "t4", "func": give, "wires": [["t5"]], **function},
            {"id": "t5", "type": "http response", "z": "t", "wires": []},
        ]
        flow = json.loads(FLOW.read_text(encoding="utf-8")) + caller
        (self.directory / "flows.json").write_text(json.dumps(flow), encoding="utf-8")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [
            *("env", *self._settings, "node", str(self._program), "--userDir", str(self.directory)),
            *("--port", str(self.port), str(self.directory / "flows.json")),
        ]

    def require_answer(self) -> None:
        try:
            if requests.get(f"{self.url}/caller?number=101", timeout=5).status_code != 200:
                raise psycopg.OperationalError
        except requests.RequestException as error:
            raise psycopg.OperationalError from error  # what `start` waits for

    def caller(self, number: str, call: str = "call-1") -> dict[str, Any]:
        response = requests.get(f"{self.url}/caller", {"number": number, "call": call}, timeout=60)
        message = response.json()
        assert message["payload"] == number
        caller: dict[str, Any] = message["caller"]
        return caller


@pytest.fixture
def start() -> Iterator[Callable[..., NodeRed]]:
    started: list[NodeRed] = []

    def start(**settings: str) -> NodeRed:
        started.append(NodeRed(**settings))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.close()


def test_node_red_finds_name_and_spam_of_a_real_search(
    start: Callable[..., NodeRed], serve: Callable[..., Service]
) -> None:
    service = serve()
    service.manage("set_rule", NUMBER[1:], "--spam", "yes", "--name", "Müller & Söhne")
    key = service.manage("create_token", "telephone", "--credits", "1", "--quiet").strip()
    node_red = start(URL=f"{service.url}/", TOKEN=key, **GERMANY)
    found = {"number": NUMBER[1:], "name": "Spam: Müller & Söhne", "spam": True, "said": "OK, 0 credits left"}
    assert [node_red.caller("03023125555") for _ in range(2)] == [found, found]  # charged once
    assert node_red.caller("+12125550123", "call-2")["said"] == "status 403"
    service.kill()
    assert node_red.caller("+12125550123", "call-3")["said"] == "no answer"
    log = (node_red.directory / "log").read_text()
    assert "caller identification: no name, status 403" in log
    assert not [secret for secret in (key, "3023125555", "Söhne") if secret in log]


def test_node_red_goes_on_after_every_fault(start: Callable[..., NodeRed], vendor: StartVendor) -> None:
    faults = every_fault()
    numbers = {f"+49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number[1:]: faults[name] for number, name in numbers.items()}))
    node_red = start(URL=http.url)
    results = at_the_same_time(lambda some: [node_red.caller(number, number) for number in some], list(numbers))
    http.release()
    assert [result for result in results if result["name"] or result["spam"]] == []
    assert len(http.bodies) == len(faults)  # no redirect was followed
    http.behave_as(raw(json.dumps(answer("Example Bakery")).encode()))
    assert node_red.caller(NUMBER)["name"] == "Example Bakery"
