"""The service as it is run, with both slots bound to vendors: over real sockets from end to end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests import upstream
from tests.api import NUMBER
from tests.mock_vendors import KEYS, PRESETS
from tests.service import Service
from tests.upstream import Upstream

pytestmark = pytest.mark.once

Serve = Callable[..., Service]


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    """Answers both slots."""
    server = Upstream(upstream.says({**upstream.GOOD_A, **upstream.GOOD_B})).start()
    yield server
    server.stop()


@pytest.fixture
def service(serve: Serve, vendor: Upstream) -> Service:
    bound = {"SOURCE_A": "mock_a", "SOURCE_B": "mock_b", "PRESET_DIR": str(PRESETS), "LOG_LEVEL": "DEBUG"}
    urls = {"MOCK_A_BASE_URL": vendor.url, "MOCK_B_BASE_URL": vendor.url}
    return serve(**bound, **urls, **KEYS, RATE_LIMIT="1000/m", CALL_LIFETIME_S="60", SEARCH_DEADLINE_S="0.5")


def search(service: Service, number: str = NUMBER) -> requests.Response:
    key = service.manage("create_token", "vendors", "--credits", "100", "--quiet").strip()
    return requests.post(f"{service.url}/callerid/search", json={"api_key": key, "query": number}, timeout=30)


def test_both_vendors_are_asked_and_answered_with(service: Service) -> None:
    data = search(service).json()["data"]
    assert data["source_a"] == {"name": "Example Sweepstakes", "location": "Springfield, IL"}
    assert data["source_b"] == {"name": "Example Sweepstakes", "spam": True}


@pytest.mark.parametrize(
    "fault",
    ["401", "500", "not HTTP", "HTML with 200", "endless headers", "drips its body", "gzip bomb", "odd headers"],
)
def test_vendor_faults_log_no_key_number_or_name(service: Service, vendor: Upstream, fault: str) -> None:
    odd = upstream.sends(b"HTTP/1.1 200 OK\r\nno colon here\r\n b\r\nContent-Length: 2\r\n\r\n{}")
    vendor.behave_as(odd if fault == "odd headers" else upstream.FAULTS[fault][0])
    assert search(service).status_code == 500
    service.stop()
    log = service.log()
    assert "source failed: connector=mock_a" in log
    said = [*KEYS.values(), NUMBER, "Example", "Traceback"]
    assert [word for word in said if word in log] == []


def test_a_hanging_vendor_does_not_delay_the_services_end(service: Service, vendor: Upstream) -> None:
    vendor.behave_as(upstream.drips_body)
    assert search(service).status_code == 500
    assert service.stop() == 0


def test_a_command_does_not_wait_for_a_hanging_vendor(service: Service, vendor: Upstream) -> None:
    vendor.behave_as(upstream.hangs)
    with pytest.raises(RuntimeError, match="1 failed in both sources"):
        service.manage("lookup", NUMBER)
    assert vendor.heads  # which hang still


def test_a_faulty_preset_that_is_not_bound_stops_no_start(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("title = 1", encoding="utf-8")
    service = serve(PRESET_DIR=str(tmp_path), SOURCE_A="directory")
    assert requests.get(f"{service.url}/livez", timeout=10).status_code == 200
    with pytest.raises(RuntimeError, match=r"mine\.toml: title: Expected `str`"):
        serve(PRESET_DIR=str(tmp_path), SOURCE_A="mine")


def test_a_missing_key_or_unknown_source_stops_the_start(serve: Serve) -> None:
    for environment, told in (
        ({"SOURCE_A": "twilio"}, "SOURCE_A: twilio needs TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN"),
        ({"SOURCE_B": "twilo"}, "SOURCE_B: there is no source 'twilo'"),
    ):
        with pytest.raises(RuntimeError, match=told) as raised:
            serve(**environment)
        assert "Traceback" not in str(raised.value)
