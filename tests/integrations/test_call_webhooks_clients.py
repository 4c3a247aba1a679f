"""integrations/webhooks against the vendors' own clients, which `.ci/run` installs from requirements/oracles.lock."""

import importlib
import os
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest

from tests.integrations.call_webhooks import (
    ADDRESS,
    AUTH_TOKEN,
    NUMBER,
    SETTINGS,
    load,
    telnyx_headers,
    twilio_signature,
)


def client(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("CALLERID_REQUIRE_CLIENTS"):
            raise
        pytest.skip(f"the vendor's client {name} is not installed: see requirements/oracles.lock")


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(f"CALLERID_{name}", value)


@pytest.mark.parametrize("more", [{}, {"CallerName": "Müller & Söhne", "a": "", "A": " +%"}])
def test_twilio_signs_as_is_verified(more: dict[str, str]) -> None:
    call = {"CallSid": "CA1", "From": NUMBER, **more}
    signature = client("twilio.request_validator").RequestValidator(AUTH_TOKEN).compute_signature(ADDRESS, call)
    assert load().signed_by_twilio({"x-twilio-signature": signature}, urlencode(call).encode())
    assert signature == twilio_signature(call)
    assert not load().signed_by_twilio({"x-twilio-signature": signature}, urlencode(call | {"a": "x"}).encode())


def test_telnyx_verifies_the_same() -> None:
    """Its client verifies JSON only; the signature is of the body, whatever it is."""
    body = '{"data": {"event_type": "call.initiated"}}'
    headers = telnyx_headers(body)
    telnyx = client("telnyx").Telnyx(api_key="secret", public_key=SETTINGS["TELNYX_PUBLIC_KEY"])
    ours = {name.lower(): value for name, value in headers.items()}
    telnyx.webhooks.unwrap(body, headers=headers)
    assert load().signed_by_telnyx(ours, body.encode())
    with pytest.raises(ValueError, match="does not match"):
        telnyx.webhooks.unwrap(f"{body} ", headers=headers)
    assert not load().signed_by_telnyx(ours, f"{body} ".encode())
    old = telnyx_headers(body, age_s=310)
    with pytest.raises(ValueError, match="too old"):
        telnyx.webhooks.unwrap(body, headers=old)


def test_documents_are_those_of_twilios_client(monkeypatch: pytest.MonkeyPatch) -> None:
    voice, ours = client("twilio.twiml.voice_response"), load()
    caller = ours.Caller("Müller & Söhne", spam=True)
    expected = voice.VoiceResponse()
    query = "X-Caller-Name=M%C3%BCller%20%26%20S%C3%B6hne&X-Caller-Spam=yes"
    expected.dial(answer_on_bridge=True).sip(f"{SETTINGS['DIAL']}?{query}")
    assert ET.canonicalize(ours.twiml(caller)) == ET.canonicalize(str(expected))

    monkeypatch.setenv("CALLERID_DIAL", "client:alice")
    expected = voice.VoiceResponse()
    called = expected.dial(answer_on_bridge=True).client()
    called.identity("alice")
    called.parameter(name="caller_name", value="Müller & Söhne")
    called.parameter(name="caller_spam", value="yes")
    assert ET.canonicalize(ours.twiml(caller)) == ET.canonicalize(str(expected))
