"""Every fault of a vendor, on real sockets, in either slot and in both: the search answers in time all the same."""

import ssl
from collections.abc import Iterable
from typing import Any

import pytest
import trustme

from lookup.answers import SourceCall
from monitoring import source_statistics
from tests.api import Integrator
from tests.lookup.vendors.searches import guard_of, in_flight
from tests.mock_vendors import Vendors
from tests.servers import free_port
from tests.upstream import FAULTS, GOOD_A, GOOD_B, Upstream, says

pytestmark = pytest.mark.once

DEADLINE_S = 0.8
FOUND = {
    "a": {"name": "Example Bakery", "location": "Springfield, IL"},
    "b": {"name": "Example Sweepstakes", "spam": True},
}


@pytest.fixture
def searcher(db: None, settings: Any, vendors: Vendors) -> Integrator:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = DEADLINE_S, 60.0
    return Integrator()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("slot", ["a", "b"])
def test_one_faulty_slot_leaves_the_other_slots_answer(
    searcher: Integrator, vendors: Vendors, slot: str, fault: str, reasons: list[str]
) -> None:
    vendors[slot].behave_as(FAULTS[fault][0])
    other = "b" if slot == "a" else "a"
    response = searcher.search()
    # A call that hangs or drips is still in flight: the search did not wait for it.
    assert bool(in_flight(guard_of(f"mock_{slot}"))) == (FAULTS[fault][1] == "late")
    assert response.status_code == 200, fault
    data = response.json()["data"]
    assert (data[f"source_{slot}"], data[f"source_{other}"]) == ({}, FOUND[other])
    assert f'source_{slot};desc="failed"' in response.headers["Server-Timing"]
    assert reasons == [FAULTS[fault][1]]
    assert searcher.balance() == 9


@pytest.mark.parametrize("fault", FAULTS)
def test_both_slots_faulty_is_500_and_not_charged(searcher: Integrator, vendors: Vendors, fault: str) -> None:
    vendors.a.behave_as(FAULTS[fault][0])
    vendors.b.behave_as(FAULTS[fault][0])
    response = searcher.search()
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert (searcher.balance(), searcher.debits()) == (10, 0)


@pytest.mark.parametrize("fault", ["refuses", "bad TLS"])
@pytest.mark.parametrize("slots", ["a", "b", "ab"])
def test_unreachable_vendor_or_untrusted_certificate_fails(
    vendors: Vendors,
    searcher: Integrator,
    monkeypatch: pytest.MonkeyPatch,
    reasons: list[str],
    slots: str,
    fault: str,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    impostor = Upstream(says({**GOOD_A, **GOOD_B}), context).start()
    for slot in slots:
        url = f"http://127.0.0.1:{free_port()}" if fault == "refuses" else impostor.url
        monkeypatch.setenv(f"MOCK_{slot.upper()}_BASE_URL", url)
    response = searcher.search()
    impostor.stop()
    assert reasons == ["unavailable"] * len(slots)
    assert impostor.heads == []  # and so no key
    if slots == "ab":
        assert (response.status_code, searcher.balance()) == (500, 10)
    else:
        other = "b" if slots == "a" else "a"
        assert response.json()["data"][f"source_{other}"] == FOUND[other]


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why sources failed in this test's searches."""
    seen: list[str] = []

    def count(slot: str, calls: Iterable[SourceCall]) -> None:
        seen.extend(call.outcome for call in calls if call.outcome not in ("found", "not_found"))

    monkeypatch.setattr(source_statistics, "count", count)
    return seen
