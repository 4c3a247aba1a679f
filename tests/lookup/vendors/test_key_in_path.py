"""A vendor that wants its key in the URL's path: whatever fails, neither key, path nor number is logged or shown."""

import logging
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme
from django.core.management import CommandError, call_command

from lookup.answers import Failed
from lookup.connectors import registry
from tests import upstream
from tests.awaited import search
from tests.lookup.vendors.calls import resolve_to
from tests.mock_vendors import Vendors
from tests.servers import free_port
from tests.upstream import FAULTS, Upstream

pytestmark = [pytest.mark.once, pytest.mark.django_db, pytest.mark.usefixtures("short_deadline")]

NUMBER = "12025550123"
KEY = "a/key of?ours-51c0"
PRIVATE = ["ours-51c0", "a%2Fkey", "a/key", "/api/json", "json/phone", "strictness", "2025550123", "/gateway"]


@pytest.fixture
def bind(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Slot A is bound to the vendor at that URL, with a path before the preset's; slot B to what does not fail."""
    settings.PRESET_DIR, settings.SOURCE_A, settings.SOURCE_B = "", "ipqualityscore", "complaints"
    monkeypatch.setenv("IPQUALITYSCORE_KEY", KEY)

    def to(url: str) -> None:
        monkeypatch.setenv("IPQUALITYSCORE_BASE_URL", f"{url}/gateway")

    return to


def require_private(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """A search and `check_sources` fail, and what they say has nothing private."""
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="lookup"):
        assert isinstance(search(NUMBER).slots["source_a"].answer, Failed)
        registry.reset()  # waits for a call that is late
        with pytest.raises(CommandError, match=r"1 of 2 failed") as failed:
            call_command("check_sources", "--number", NUMBER)
    shown = capsys.readouterr()
    said = f"{caplog.text}{shown.out}{shown.err}{failed.value}"
    assert "source failed: connector=ipqualityscore" in said
    assert [word for word in PRIVATE if word in said] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_vendor_faults_reveal_neither_key_path_nor_number(
    vendors: Vendors,
    bind: Callable[[str], None],
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    bind(vendors.a.url)
    vendors.a.behave_as(FAULTS[fault][0])
    require_private(caplog, capsys)


def test_url_echoed_by_the_vendor_is_not_shown(
    vendors: Vendors, bind: Callable[[str], None], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    bind(vendors.a.url)
    text = f"No lookup at /api/json/phone/{KEY}/{NUMBER}"
    vendors.a.behave_as(upstream.says({"success": False, "message": text}))
    require_private(caplog, capsys)


@pytest.mark.parametrize("fault", ["refused", "private address", "no address", "bad TLS"])
def test_connection_faults_reveal_neither_key_path_nor_number(
    bind: Callable[[str], None],
    vendor: Callable[..., Upstream],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    url = "https://vendor.example.com"
    if fault == "refused":
        url = f"http://127.0.0.1:{free_port()}"
    elif fault == "bad TLS":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
        url = vendor(upstream.says({}), context).url
    else:
        resolve_to(monkeypatch, *(["10.0.0.1"] if fault == "private address" else []))
    bind(url)
    require_private(caplog, capsys)
