"""Webhooks are signed as Standard Webhooks describes, and no receiver holds the sender for longer than the timeout."""

import base64
import hashlib
import hmac
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from contrib.alerts import webhooks
from tests.servers import free_port
from tests.upstream import FAULTS, Behaviour, Upstream, raw

Vendor = Callable[..., Upstream]

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"


def post(url: str, *, secrets: tuple[str, ...] = (SECRET,), body: bytes = b"{}") -> None:
    webhooks.post(url=url, secrets=secrets, message_id="msg_1", timestamp=int(time.time()), body=body)


def headers(server: Upstream) -> dict[str, str]:
    lines = server.heads[-1].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def test_signature_is_the_one_of_the_published_example() -> None:
    """The example in the specification's reference libraries."""
    assert webhooks.signature(
        secret=SECRET, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp=1614265330, body=b'{"test": 2432232314}'
    ) == ("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")


def test_request_has_the_headers_of_the_specification(vendor: Vendor) -> None:
    server, body = vendor(raw(b"", 204)), '{"name": "Bäckerei"}'.encode()
    post(f"{server.url}/hooks?key=1", secrets=(SECRET, OTHER_SECRET), body=body)
    sent = headers(server)
    assert server.heads[0].startswith(b"POST /hooks?key=1 HTTP/1.1\r\n")
    assert (server.bodies, sent["content-type"], sent["webhook-id"]) == ([body], "application/json", "msg_1")
    assert abs(int(sent["webhook-timestamp"]) - time.time()) < 300
    signed = f"msg_1.{sent['webhook-timestamp']}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in (SECRET, OTHER_SECRET)]
    digests = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    assert sent["webhook-signature"] == f"v1,{digests[0]} v1,{digests[1]}"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_every_2xx_is_success(vendor: Vendor, status: int) -> None:
    post(vendor(raw(b"", status)).url)


@pytest.mark.parametrize("status", [302, 307, 400, 404, 429, 500, 503])
def test_other_status_is_a_failure_and_is_not_followed(vendor: Vendor, status: int) -> None:
    elsewhere = vendor(raw(b""))
    server = vendor(raw(b"secret of the receiver", status, f"Location: {elsewhere.url}\r\n"))
    with pytest.raises(webhooks.WebhookFailed, match=f"^HTTP {status}$") as raised:
        post(server.url)
    assert not isinstance(raised.value, webhooks.WebhookUnreachable)
    assert (server.connections, elsewhere.connections) == (1, 0)


def test_gone_is_told_apart(vendor: Vendor) -> None:
    with pytest.raises(webhooks.WebhookGone):
        post(vendor(raw(b"", 410)).url)


@pytest.mark.parametrize("fault", ["hangs before headers", "drips headers", "not HTTP", "resets", "endless headers"])
def test_receiver_without_an_answer_ends_with_the_timeout(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.3)
    with pytest.raises(webhooks.WebhookUnreachable) as raised:
        post(f"{vendor(FAULTS[fault][0]).url}/path-is-secret")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("fault", ["drips its body", "10 GB", "gzip bomb", "hangs after headers", "stops short"])
def test_body_of_the_response_is_not_read(vendor: Vendor, fault: str) -> None:
    behave: Behaviour = FAULTS[fault][0]
    post(vendor(behave).url)


def test_closed_port_is_unreachable() -> None:
    with pytest.raises(webhooks.WebhookUnreachable, match="could not be reached"):
        post(f"http://127.0.0.1:{free_port()}/")


def test_certificate_is_verified(vendor: Vendor, tmp_path_factory: pytest.TempPathFactory, settings: Any) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bundle = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    server = vendor(raw(b""), context)
    with pytest.raises(webhooks.WebhookUnreachable, match="certificate"):
        post(server.url)
    assert server.bodies == []
    settings.CA_BUNDLE = str(bundle)
    post(server.url)
    assert server.bodies == [b"{}"]


def test_label_shows_neither_path_nor_password() -> None:
    url = "https://user:password@hooks.example.org/services/T0/secret"
    assert webhooks.label(url).startswith("hooks.example.org (")
    assert webhooks.label(url) != webhooks.label(f"{url}2")
