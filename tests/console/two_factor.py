"""Steps of a user with two-factor authentication: password, code, set-up."""

import re
from datetime import timedelta
from typing import Any

from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from tests import totp

PASSWORD = "the right one"
INDEX, LOGIN = reverse("admin:index"), reverse("admin:login")
OVERVIEW, VERIFY = reverse("admin:second_factor"), reverse("admin:second_factor_verify")
SET_UP = reverse("admin:second_factor_set_up")
#: Values of the field `action` of the form on OVERVIEW.
REMOVE, NEW_CODES = "remove", "codes"


def logged_in(name: str = "boss", **query: str) -> Client:
    """After the password."""
    client = Client()
    assert client.post(LOGIN, {"username": name, "password": PASSWORD}, query_params=query).status_code == 302
    return client


def enter(client: Client, code: str, **query: str) -> Any:
    return client.post(VERIFY, {"code": code}, query_params=query)


def change(client: Client, action: str, proof: str = PASSWORD) -> Any:
    return client.post(OVERVIEW, {"action": action, "proof": proof})


def verified(secret: str, steps: int = 0) -> Client:
    client = logged_in()
    assert enter(client, totp.code(secret, steps))["Location"] == INDEX
    return client


def is_in(client: Client) -> bool:
    return client.get(INDEX).status_code == 200


def reset_wrong_code_delay() -> None:
    """As after the delay that wrong codes cause."""
    for device in (TOTPDevice, StaticDevice):
        device.objects.update(throttling_failure_timestamp=timezone.now() - timedelta(days=365))


def submit_set_up(client: Client, password: str | None = PASSWORD) -> tuple[str, Any]:
    """The secret that the set-up page shows, and the response to its correct code with this password."""
    page = client.get(SET_UP).text
    typed = re.search(r'<pre class="console-secret[^>]*>([A-Z2-7 ]+)</pre>', page)
    assert typed
    form = {"secret": hidden(page), "code": totp.code(typed[1])}
    if password is not None:
        form["password"] = password
    return typed[1], client.post(SET_UP, form)


def set_up(client: Client, password: str = PASSWORD) -> tuple[str, list[str]]:
    """The secret, and the recovery codes that the response shows."""
    secret, response = submit_set_up(client, password)
    assert "no-store" in response["Cache-Control"]
    return secret, recovery_codes(response)


def recovery_codes(response: Any) -> list[str]:
    return re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", response.text)


def hidden(page: str) -> str:
    """The signed key in the set-up page."""
    found = re.search(r'name="secret" value="([^"]+)"', page)
    assert found
    return found[1]
