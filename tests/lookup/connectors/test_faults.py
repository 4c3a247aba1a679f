"""Upstreams hang, lie, change and go down; a search does not. Every fault, on real sockets, in either slot and both."""

import time
from typing import Any

import pytest

from lookup import usage
from tests.api import Integrator
from tests.lookup.connectors.conftest import Vendors
from tests.upstream import FAULTS

DEADLINE_S = 0.4
FOUND = {
    "a": {"name": "Example Bakery", "location": "Springfield, IL"},
    "b": {"name": "Example Sweepstakes", "spam": True},
}


@pytest.fixture
def searcher(db: None, settings: Any, vendors: Vendors) -> Integrator:
    settings.SEARCH_DEADLINE_S, settings.CALL_LIFETIME_S = DEADLINE_S, 1.0
    return Integrator()


def test_two_good_vendors_are_answered_with(searcher: Integrator) -> None:
    data = searcher.search().json()["data"]
    assert (data["source_a"], data["source_b"]) == (FOUND["a"], FOUND["b"])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("slot", ["a", "b"])
def test_one_faulty_slot_leaves_the_others_answer(
    searcher: Integrator, vendors: Vendors, slot: str, fault: str, reasons: list[str]
) -> None:
    vendors[slot].repair(FAULTS[fault][0])
    other = "b" if slot == "a" else "a"
    started = time.monotonic()
    response = searcher.search()
    assert time.monotonic() - started < 2 * DEADLINE_S  # what drips and hangs does so for longer
    assert response.status_code == 200, fault
    data = response.json()["data"]
    assert (data[f"source_{slot}"], data[f"source_{other}"]) == ({}, FOUND[other])
    assert f'source_{slot};desc="failed"' in response.headers["Server-Timing"]
    assert reasons == [FAULTS[fault][1]]
    assert searcher.balance() == 9


@pytest.mark.parametrize("fault", FAULTS)
def test_both_faulty_is_500_and_costs_nothing(searcher: Integrator, vendors: Vendors, fault: str) -> None:
    vendors.a.repair(FAULTS[fault][0])
    vendors.b.repair(FAULTS[fault][0])
    response = searcher.search()
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert (searcher.balance(), searcher.debits()) == (10, 0)


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the members of this test's searches failed."""
    seen: list[str] = []

    def count(*, outcome: str, **rest: Any) -> None:
        if outcome not in ("found", "not_found") and not outcome.startswith("breaker_"):
            seen.append(outcome)

    monkeypatch.setattr(usage, "count", count)
    return seen
