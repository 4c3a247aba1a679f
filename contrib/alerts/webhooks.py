"""Webhooks: POST requests signed as Standard Webhooks describes (https://www.standardwebhooks.com/)."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from core import addresses

#: The limit for the whole request, name resolution and TLS included.
TIMEOUT_S = 10.0
SECRET_PREFIX = "whsec_"  # noqa: S105
SECRET_BYTES = range(24, 65)
HOW_TO_CREATE_A_KEY = (
    "Create one with python3 -c "
    "'import base64, secrets; print(\"whsec_\" + base64.b64encode(secrets.token_bytes(32)).decode())'"
)


class WebhookFailed(Exception):
    """The receiver did not accept the message. The text names no URL and nothing that the receiver sent."""


class WebhookUnreachable(WebhookFailed):
    """No answer arrived, so another message would not be accepted now either."""


class WebhookGone(WebhookFailed):
    """The receiver answered 410 Gone: it wants no more messages."""


def secret_bytes(secret: str) -> bytes:
    """The key in `whsec_…`. Raises ValueError unless it is Base64 of 24 to 64 bytes."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)  # binascii.Error is a ValueError
    if not secret.startswith(SECRET_PREFIX) or len(key) not in SECRET_BYTES:
        raise ValueError
    return key


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def label(url: str) -> str:
    """Identifies the URL without its path, query and password, which may be secret: `hooks.example.org (3f9a1c2b)`."""
    return f"{(urlsplit(url).hostname or '')[:200]} ({hashlib.sha256(url.encode()).hexdigest()[:8]})"


def signature(*, secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """`v1,…`: one entry of the header `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret_bytes(secret), signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def post(
    *, url: str, secrets: Sequence[str], message_id: str, timestamp: int, body: bytes, public: bool = False
) -> None:
    """Send a JSON `body`, signed with each of `secrets`. Returns when the receiver has answered with 2xx.

    Raises WebhookFailed otherwise: redirects are not followed, and of the response only the status is read.
    `timestamp`: now, in seconds since 1970. `public`: only to a public address (core.addresses).
    """
    signatures = (signature(secret=secret, message_id=message_id, timestamp=timestamp, body=body) for secret in secrets)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "callerid-webhooks",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
    from core import http  # settings import this module, and few processes send

    policy = "public" if public else addresses.policy_for(url, private_network=True)
    try:
        with (
            http.Session(url, policy, timeout_s=TIMEOUT_S) as session,
            session.request("POST", url, data=body, headers=headers) as response,
        ):
            status = response.status_code
    except http.RequestFailed as error:
        raise WebhookUnreachable(str(error)) from None
    if status == 410:
        raise WebhookGone("HTTP 410")
    if not 200 <= status < 300:
        raise WebhookFailed(f"HTTP {status}")
