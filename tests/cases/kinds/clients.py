"""What the clients of clients/ make of a response, and the webhooks of calls of a signature."""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.cases.case import Case
from tests.clients.drivers import CLIENTS, Search
from tests.integrations.call_webhooks import AUTH_TOKEN, load, twilio_signature
from tests.servers import required
from tests.upstream import Behaviour, Conversation, Upstream

NUMBER = "493023125042"
CALL = {"CallSid": "CA1", "From": f"+{NUMBER}"}


def client_response(case: Case, vendor: Callable[..., Upstream]) -> None:
    """`[responses]`: a file as `curl -i` prints it = what each client returns: `credits_remaining`, or `error`, perhaps
    with `message`, `status` and `retry_after`."""
    expected = case.data.pop("responses")
    servers = [vendor(_sends(case.folder / file)) for file in expected]
    got: dict[str, Any] = {}
    for client, run in CLIENTS.items():
        with required():
            outcomes = run([Search(server.url, "a.b.c", NUMBER, attempts=1) for server in servers])
        for outcome, (file, wanted) in zip(outcomes, expected.items(), strict=True):
            known = {**asdict(outcome), **outcome.result}
            got[f"{client} {file}"] = {name: known.get(name) for name in wanted}
    assert got == {f"{client} {file}": wanted for client in CLIENTS for file, wanted in expected.items()}


def _sends(file: Path) -> Behaviour:
    head, _, body = file.read_bytes().partition(b"\n\n")
    lines = [*head.split(b"\n"), b"Content-Length: %d" % len(body), b"Connection: close", b"", body]

    def behave(conversation: Conversation) -> bool:
        conversation.send(b"\r\n".join(lines))
        return False

    return behave


def twilio_addresses(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`[signed]`: the webhook's address as it is set = those whose signatures are accepted. With another host, they
    are not."""
    expected = case.data.pop("signed")
    webhooks = load()
    body = "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in CALL.items()).encode()
    monkeypatch.setenv("CALLERID_TWILIO_AUTH_TOKEN", AUTH_TOKEN)

    def is_accepted(address: str) -> bool:
        accepted: bool = webhooks.signed_by_twilio({"x-twilio-signature": twilio_signature(CALL, address)}, body)
        return accepted

    for address, signed in expected.items():
        monkeypatch.setenv("CALLERID_TWILIO_WEBHOOK", address)
        assert [text for text in signed if not is_accepted(text)] == []
        others = [re.sub(r"example\.org|2001:db8::1", "example.net", text) for text in signed]
        assert [text for text in others if is_accepted(text)] == []
