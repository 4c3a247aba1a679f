"""Every fault of a vendor, on real sockets, in either slot: the search answers in time all the same."""

from collections.abc import Iterable
from typing import Any

import pytest

from lookup.answers import SourceCall
from monitoring import source_statistics
from tests.api import Integrator
from tests.lookup.vendors.searches import guard_of, in_flight
from tests.mock_vendors import Vendors
from tests.upstream import FAULTS

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


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why sources failed in this test's searches."""
    seen: list[str] = []

    def count(slot: str, calls: Iterable[SourceCall], token_id: int | None) -> None:
        seen.extend(call.outcome for call in calls if call.outcome not in ("found", "not_found"))

    monkeypatch.setattr(source_statistics, "count", count)
    return seen
