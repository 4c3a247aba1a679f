"""A TRUSTED_PROXIES that does not match the proxies in front, and what they write that cannot be read, are reported."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from monitoring.health import forwarding
from tests.console_pages import words
from tests.plugin import production

UNTRUSTED = "Proxy: unhealthy X-Forwarded-For was received, but TRUSTED_PROXIES is 0. Set it to the number of proxies"


@pytest.fixture(autouse=True)
def _monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a start."""
    monkeypatch.setattr(forwarding, "monitor", forwarding.ForwardingMonitor())


def finding(client: Client, **headers: str) -> str:
    page = words(client.get(reverse("admin:index"), headers=headers).text)
    found = re.search(r"Proxy: .*?(?=Searches since)", page)
    assert found
    return found[0].replace("error ", "").strip()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "monitoring.health.forwarding"]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded"])
def test_an_untrusted_proxy_is_reported_once(
    admin_client: Client, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    before = "Proxy: unhealthy TRUSTED_PROXIES is 0: set it" if production() else "Proxy: healthy TRUSTED_PROXIES is 0"
    assert finding(admin_client).startswith(before)
    for _ in range(3):
        Client().get("/livez", headers={header: "for=198.51.100.7"})
    assert len(warnings(caplog)) == 1
    assert "TRUSTED_PROXIES is 0" in warnings(caplog)[0]
    assert "198.51.100" not in caplog.text
    assert finding(admin_client).startswith(UNTRUSTED)


def test_the_dashboard_request_itself_is_observed(admin_client: Client) -> None:
    assert finding(admin_client, X_Forwarded_For="198.51.100.7").startswith(UNTRUSTED)


def test_a_trusted_proxy_is_not_reported(admin_client: Client, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.TRUSTED_PROXIES = 1
    assert finding(admin_client, X_Forwarded_For="198.51.100.7").startswith("Proxy: healthy")
    assert finding(admin_client, X_Forwarded_For="203.0.113.9, 198.51.100.7").startswith("Proxy: healthy")
    assert not warnings(caplog)


@pytest.mark.parametrize(("sent", "hops"), [({}, 0), ({"X_Forwarded_For": "198.51.100.7"}, 1)])
def test_fewer_proxies_than_trusted_are_reported(
    admin_client: Client, settings: Any, sent: dict[str, str], hops: int
) -> None:
    settings.TRUSTED_PROXIES = 2
    expected = f"Proxy: unhealthy TRUSTED_PROXIES is 2, but X-Forwarded-For of this request has {hops} entries"
    assert finding(admin_client, **sent).startswith(expected)


@pytest.mark.parametrize("sent", [{"X_Forwarded_For": "unknown"}, {"Forwarded": "for=198.51.100.7"}])
def test_an_unreadable_address_is_reported(
    admin_client: Client,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    sent: dict[str, str],
) -> None:
    settings.TRUSTED_PROXIES = 1
    for _ in range(3):
        Client().get("/livez", headers=sent)
    (warning,) = warnings(caplog)
    assert warning.startswith("Client addresses cannot be read.")
    assert "198.51.100" not in caplog.text
    expected = "Proxy: unhealthy Client addresses cannot be read."
    assert finding(admin_client, X_Forwarded_For="198.51.100.7").startswith(expected)
    later = timezone.now() + forwarding.GONE
    monkeypatch.setattr(timezone, "now", lambda: later)
    assert finding(admin_client, X_Forwarded_For="198.51.100.7").startswith("Proxy: healthy")
