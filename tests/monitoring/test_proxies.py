"""A TRUSTED_PROXIES that does not match the proxies in front is reported in the log and on the dashboard."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import requests
from django.core.cache import caches
from django.test import Client
from django.urls import reverse

from monitoring import proxies
from tests.console.test_login import LOGIN
from tests.console_pages import words
from tests.plugin import production
from tests.service import Service

UNTRUSTED = "Proxy: unhealthy X-Forwarded-For was received, but TRUSTED_PROXIES is 0. Set it to the number of proxies"


@pytest.fixture(autouse=True)
def monitor(monkeypatch: pytest.MonkeyPatch, settings: Any) -> proxies.ForwardingMonitor:
    """As after a start, with its own cache."""
    monitor = proxies.ForwardingMonitor()
    monkeypatch.setattr(proxies, "monitor", monitor)
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "test_proxies"}
    settings.CACHES = {**settings.CACHES, "rate_limits": local}
    caches["rate_limits"].clear()
    return monitor


def finding(client: Client, **headers: str) -> str:
    page = words(client.get(reverse("admin:index"), headers=headers).text)
    found = re.search(r"Proxy: .*?(?=Searches since)", page)
    assert found
    return found[0].replace("error ", "").strip()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == "monitoring.proxies"]


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


@pytest.mark.once
def test_every_process_reports_what_one_observed(serve: Callable[..., Service], redis_url: str) -> None:
    """The header reaches one worker; the dashboard of another reports it."""
    behind_the_proxy = serve(REDIS_URL=redis_url, TRUSTED_PROXIES="0")
    data = {"CALLERID_DATA_DIR": behind_the_proxy.env["CALLERID_DATA_DIR"]}
    data |= {name: behind_the_proxy.env[name] for name in ("DATABASE_URL",) if name in behind_the_proxy.env}
    another = serve(REDIS_URL=redis_url, **data)
    make = "from django.contrib.auth.models import User; User.objects.create_superuser('boss', password='right')"
    another.manage("shell", "-c", make)
    requests.get(f"{behind_the_proxy.url}/livez", headers={"X-Forwarded-For": "198.51.100.7"}, timeout=30)
    assert behind_the_proxy.log().count("X-Forwarded-For or Forwarded received") == 1

    # On the production profile cookies are HTTPS-only, so this sends them explicitly.
    form = requests.get(another.url + LOGIN, timeout=30)
    token = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
    assert token
    answer = requests.post(
        another.url + LOGIN,
        {"csrfmiddlewaretoken": token[1], "username": "boss", "password": "right"},
        headers={"Cookie": f"csrftoken={form.cookies['csrftoken']}"},
        allow_redirects=False,
        timeout=30,
    )
    logged_in = {"Cookie": f"sessionid={answer.cookies['sessionid']}"}
    dashboard = requests.get(another.url + reverse("admin:index"), headers=logged_in, timeout=30)
    assert UNTRUSTED in words(dashboard.text).replace("error ", "")
    assert "Forwarded received" not in another.log()
