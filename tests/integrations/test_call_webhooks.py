"""integrations/webhooks: signed calls are answered with a name, or without one; unsigned ones with 403."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from urllib.parse import unquote, urlencode
from xml.etree import ElementTree as ET

import pytest
import requests

from tests.integrations.answers import ERRORS, answer, by_number, every_fault
from tests.integrations.call_webhooks import NUMBER, SCRIPT, SETTINGS, Webhooks, telnyx_headers, twilio_signature
from tests.integrations.vectors import GERMANY, NAMES, NATIONAL, NUMBERS, WRITTEN
from tests.servers import free_port
from tests.service import Service
from tests.upstream import Upstream, drips_body, hangs, raw, resets, says

pytestmark = [pytest.mark.once, pytest.mark.slow]

#: No seconds since 1970. An int of 400 digits becomes no float, and Python reads none of 5,000.
TIMESTAMPS = ("now", "", "nan", "1_7", "-1", "9" * 400, "9" * 5_000, "1e999")
StartVendor = Callable[..., Upstream]
Set = Callable[..., None]


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Set:
    def set_all(**values: str) -> None:
        for name in [name for name in os.environ if name.startswith("CALLERID_")]:
            monkeypatch.delenv(name)
        for name, value in {**SETTINGS, **values}.items():
            monkeypatch.setenv(f"CALLERID_{name}", value)

    return set_all


@pytest.fixture
def webhooks() -> Iterator[Webhooks]:
    with Webhooks() as server:
        yield server


def dial(response: requests.Response) -> ET.Element:
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/xml; charset=utf-8")
    (found,) = ET.fromstring(response.content)
    assert found.tag == "Dial"
    return found


def sip(response: requests.Response) -> tuple[str, dict[str, str]]:
    """The address that Twilio calls, and the headers that it sends there."""
    address, _, query = str(dial(response).findtext("Sip")).partition("?")
    headers = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    return address, {name: unquote(value) for name, value in headers}


def displayed(response: requests.Response) -> str | None:
    """The name that Telnyx shows."""
    found = dial(response)
    assert found.findtext("Sip") == SETTINGS["DIAL"]
    return found.get("fromDisplayName")


def test_name_and_spam_of_a_real_search(serve: Callable[..., Service], webhooks: Webhooks, settings: Set) -> None:
    """Each call twice, as when a vendor repeats its request: charged once."""
    service = serve()
    service.manage("set_rule", NUMBER.removeprefix("+"), "--spam", "yes", "--name", "Müller & Söhne")
    key = service.manage("create_token", "telephone", "--credits", "2", "--quiet").strip()
    settings(URL=service.url, TOKEN=key)
    for _ in range(2):
        shown = {"X-Caller-Name": "Spam: Müller & Söhne", "X-Caller-Spam": "yes"}
        assert sip(webhooks.twilio()) == (SETTINGS["DIAL"], shown)
        assert displayed(webhooks.telnyx()) == "Spam Muller Sohne"
    # No credit is left.
    assert sip(webhooks.twilio("+12125550123")) == (SETTINGS["DIAL"], {})
    assert displayed(webhooks.telnyx("+12125550123")) is None


def test_client_gets_name_and_spam_as_parameters(webhooks: Webhooks, settings: Set, vendor: StartVendor) -> None:
    settings(URL=vendor(says(answer("Müller & Söhne", spam=True))).url, DIAL="client:alice")
    client = dial(webhooks.twilio()).find("Client")
    assert client is not None
    assert client.findtext("Identity") == "alice"
    parameters = {parameter.get("name"): parameter.get("value") for parameter in client.iter("Parameter")}
    assert parameters == {"caller_name": "Spam: Müller & Söhne", "caller_spam": "yes"}


def test_request_that_is_not_signed_is_refused(webhooks: Webhooks, settings: Set, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    settings(URL=http.url)
    call = {"CallSid": "CA1", "From": NUMBER}
    body = urlencode(call)
    other = urlencode(call | {"From": "+12125550123"})
    signature = {"X-Twilio-Signature": twilio_signature(call)}
    telnyx = telnyx_headers(body)
    refused = [
        webhooks.post("/twilio", body, {}),
        webhooks.post("/twilio", body, {"X-Twilio-Signature": "é".encode().decode("latin-1")}),
        webhooks.post("/twilio", other, signature),
        webhooks.post("/telnyx", body, {}),
        webhooks.post("/telnyx", other, telnyx),
        webhooks.post("/telnyx", body, telnyx | {"Telnyx-Timestamp": str(int(telnyx["Telnyx-Timestamp"]) - 1)}),
        *(webhooks.post("/telnyx", body, telnyx | {"Telnyx-Timestamp": timestamp}) for timestamp in TIMESTAMPS),
        webhooks.post("/telnyx", body, telnyx | {"Telnyx-Signature-Ed25519": "x"}),
        webhooks.post("/telnyx", body, telnyx_headers(body, age_s=310)),
        webhooks.post("/telnyx", body, telnyx_headers(body, age_s=-310)),
    ]
    assert [response.status_code for response in refused] == [403] * len(refused)
    assert webhooks.post("/twilio", "x" * 65537, {}).status_code == 413
    assert webhooks.post("/", body, signature).status_code == 404
    # A vendor without a secret, with which everyone could sign.
    settings(URL=http.url, TWILIO_AUTH_TOKEN="")
    assert webhooks.post("/twilio", body, signature).status_code == 404
    assert http.bodies == []


def test_settings_may_end_with_a_line_break(webhooks: Webhooks, settings: Set, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    settings(**{name: f"{value}\r\n" for name, value in {**SETTINGS, "URL": http.url, "SPAM_MARK": "! "}.items()})
    assert sip(webhooks.twilio()) == (SETTINGS["DIAL"], {"X-Caller-Name": "Example Bakery"})
    assert displayed(webhooks.telnyx()) == "Example Bakery"
    assert [json.loads(body)["api_key"] for body in http.bodies] == ["a.b.c"] * 2


def test_without_a_destination_the_vendor_uses_its_fallback(
    webhooks: Webhooks, settings: Set, capfd: pytest.CaptureFixture[str]
) -> None:
    settings(URL="http://127.0.0.1:1", DIAL="")
    assert webhooks.twilio().status_code == 500
    assert "caller identification: CALLERID_DIAL is not set\n" in capfd.readouterr().err


@pytest.mark.parametrize("behaviour", [hangs, drips_body])
def test_call_goes_through_without_an_answer(
    webhooks: Webhooks, settings: Set, vendor: StartVendor, behaviour: object, capfd: pytest.CaptureFixture[str]
) -> None:
    """The service is still silent, or in the middle of its answer, when the vendor gets its document."""
    http = vendor(behaviour)
    settings(URL=http.url)
    assert sip(webhooks.twilio()) == (SETTINGS["DIAL"], {})
    http.release()
    assert capfd.readouterr().err == "caller identification: no name, no answer in time\n"


def test_every_fault_leaves_the_name_out(
    webhooks: Webhooks, settings: Set, vendor: StartVendor, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = ("hang", "drip")
    faults = {name: fault for name, fault in every_fault().items() if not any(part in name for part in slow)}
    numbers = {f"49302312{index:04}": name for index, name in enumerate(faults)}
    http = vendor(by_number({number: faults[name] for number, name in numbers.items()}))
    settings(URL=http.url)
    for number, name in numbers.items():
        assert displayed(webhooks.telnyx(f"+{number}")) is None, name
    http.release()
    logged = capfd.readouterr().err
    assert not [secret for secret in ("a.b.c", "Bakery", "4930231") if secret in logged]


def test_no_name_can_break_a_document(webhooks: Webhooks, settings: Set, vendor: StartVendor) -> None:
    http = vendor(resets)
    settings(URL=http.url)
    for name, cleaned in NAMES:
        http.behave_as(says(answer(name, spam=False)))
        assert sip(webhooks.twilio())[1] == ({"X-Caller-Name": cleaned} if cleaned else {})
        shown = displayed(webhooks.telnyx())
        assert shown is None or re.fullmatch(r"[A-Za-z0-9 \-_~!.+]{1,128}", shown), name


def test_numbers_are_searched_with_their_country_code(webhooks: Webhooks, settings: Set, vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    addresses: list[tuple[dict[str, str], str, str]] = [({}, "sip:+12125550123@198.51.100.5;user=phone", "12125550123")]
    for plan, caller, query in NUMBERS + NATIONAL + WRITTEN + addresses:
        http.bodies.clear()
        settings(URL=http.url, **plan)
        assert bool(displayed(webhooks.telnyx(caller))) == bool(query)
        assert [json.loads(body) for body in http.bodies] == ([{"api_key": "a.b.c", "query": query}] if query else [])


@pytest.mark.parametrize("caller", ["anonymous", "Anonymous", "", "+266696687", "+7378742833", "sip:anonymous@x"])
def test_withheld_number_is_not_searched(webhooks: Webhooks, settings: Set, vendor: StartVendor, caller: str) -> None:
    http = vendor(says(answer("Example Bakery")))
    settings(URL=http.url)
    assert sip(webhooks.twilio(caller)) == (SETTINGS["DIAL"], {})
    assert http.bodies == []


def check(*arguments: str, **values: str) -> tuple[int, str]:
    environment = {f"CALLERID_{name}": value for name, value in {**SETTINGS, **values}.items()}
    command = [sys.executable, str(SCRIPT), "--check", *arguments]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], **environment}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.removesuffix("\n")


def test_check_says_what_is_wrong(vendor: StartVendor) -> None:
    http = vendor(says(answer("Example Bakery")))
    url = http.url
    assert check(URL=url) == check("03023125555", URL=f"{url}/", **GERMANY) == (0, "OK, 9 credits left")
    assert [json.loads(body)["query"] for body in http.bodies] == ["12025550143", "493023125555"]
    assert check("101", URL=url) == (1, "not a number with a country code")
    assert check(URL=url, TOKEN="") == (1, "CALLERID_TOKEN is not set")
    assert check(URL=f"http://127.0.0.1:{free_port()}") == (1, "ConnectionRefusedError")
    assert check(URL="callerid.example.org")[1].startswith("CALLERID_URL is not an address such as https://")
    for dialled in ("", "100", "client:alice"):  # Telnyx has no clients
        assert check(URL=url, DIAL=dialled)[1].startswith("CALLERID_DIAL is not an address")
    assert check(URL=url, DIAL="client:alice", TELNYX_PUBLIC_KEY="") == (0, "OK, 9 credits left")
    assert check(URL=url, TWILIO_WEBHOOK="")[1].startswith("CALLERID_TWILIO_WEBHOOK is not an address")
    assert check(URL=url, TELNYX_PUBLIC_KEY="x") == (1, "CALLERID_TELNYX_PUBLIC_KEY is not a key")
    assert check(URL=url, TELNYX_PUBLIC_KEY="", TWILIO_AUTH_TOKEN="")[1].endswith("are not set")
    for behaviour, said in (
        (raw(b"<html>Sign in</html>"), "not an answer of the service"),
        *((says({"detail": detail}, status), f"status {status}") for status, detail in ERRORS.items()),
    ):
        http.behave_as(behaviour)
        assert check(URL=url) == (1, said)
