"""The service as it is run, with both slots bound to vendors: over real sockets from end to end."""

from collections.abc import Callable, Iterator

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


def test_a_hanging_vendor_does_not_delay_the_services_end(service: Service, vendor: Upstream) -> None:
    vendor.behave_as(upstream.drips_body)
    assert search(service).status_code == 500
    assert service.stop() == 0


def test_a_command_does_not_wait_for_a_hanging_vendor(service: Service, vendor: Upstream) -> None:
    vendor.behave_as(upstream.hangs)
    with pytest.raises(RuntimeError, match="1 failed in both slots"):
        service.manage("lookup", NUMBER)
    assert vendor.heads  # which hang still


def test_a_missing_key_or_unknown_source_stops_the_start(serve: Serve) -> None:
    for environment, told in (
        ({"SOURCE_A": "twilio"}, "SOURCE_A: twilio needs TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN"),
        ({"SOURCE_B": "twilo"}, "SOURCE_B: there is no source 'twilo'"),
    ):
        with pytest.raises(RuntimeError, match=told) as raised:
            serve(**environment)
        assert "Traceback" not in str(raised.value)
