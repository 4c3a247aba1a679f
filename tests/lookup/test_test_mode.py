"""A search with a test token: its answer depends on the number alone, and nothing is charged, called or read."""

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts import audit, charging, tokens
from accounts.admin.tokens import TEST_EXAMPLE_NUMBER
from accounts.models import ApiToken, CreditEntry, IdempotencyRecord
from lookup import test_mode
from tests import awaited
from tests.api import NUMBER, Integrator
from tests.connectors import Knows
from tests.lookup.test_request_outcomes import counted
from tests.metrics import here
from tests.plugin import ROOT

BOTH, SPAM, NOTHING, SLOW, FAILED = (f"121255501{n}" for n in ("00", "03", "04", "05", "08"))
NO_CREDITS, RATE_LIMITED, OVERLOADED = (f"121255501{n}" for n in ("09", "10", "11"))
BAKERY = {"name": "Example Bakery"}
A, B = {**BAKERY, "location": "New York"}, {**BAKERY, "spam": False}
LONGEST = ("Longest Example Name " * 10)[:200]
#: Number → source_a and source_b of the answer, and what Server-Timing says of them.
ANSWERS: dict[str, tuple[Any, Any, str]] = {
    BOTH: (A, B, "found found"),
    "12125550101": (A, {}, "found not-found"),
    "12125550102": ({}, B, "not-found found"),
    SPAM: (A, {**BAKERY, "spam": True}, "found found"),
    NOTHING: ({}, {}, "not-found not-found"),
    SLOW: (A, B, "found found"),
    "12125550106": ({}, B, "failed found"),
    "12125550107": (A, {}, "found failed"),
    "12125550112": ({"name": LONGEST, "location": LONGEST}, {"name": LONGEST, "spam": False}, "found found"),
    "12125550113": (
        {"name": "مَخْبَزُ المِثَالِ", "location": "القاهرة 🥐"},
        {"name": "हिन्दी उदाहरण", "spam": False},
        "found found",
    ),
    NUMBER: ({}, {}, "not-found not-found"),  # which both connectors know
    "123456789012345": ({}, {}, "not-found not-found"),
}
ERRORS = {
    FAILED: (500, "Internal server error"),
    NO_CREDITS: (403, "No credits remaining"),
    RATE_LIMITED: (429, "Rate limit exceeded"),
    OVERLOADED: (503, "Service overloaded"),
}


@pytest.fixture(autouse=True)
def _short_deadline(settings: Any) -> None:
    settings.SEARCH_DEADLINE_S = 0.1


@pytest.fixture
def tester(db: None, quiet_sources: None) -> Integrator:
    return Integrator(is_test=True)


def assert_nothing_is_spent(tester: Integrator) -> None:
    assert tester.balance() == 0
    assert list(CreditEntry.objects.values_list("kind", "amount")) == [("issue", 0)]
    assert audit.audit() == []
    assert Knows.calls == []


# --- The answers ---------------------------------------------------------------------------------------------------


def test_every_listed_number_is_tested_here() -> None:
    listed = {case.number: case.status for case in test_mode.CASES}
    tested = dict.fromkeys(ANSWERS, 200) | {number: status for number, (status, _) in ERRORS.items()}
    assert len(listed) == len(test_mode.CASES)
    assert listed.items() <= tested.items()
    assert tested.keys() - listed.keys() == {NUMBER, "123456789012345"}
    assert all(re.fullmatch("121255501[0-9]{2}", number) for number in listed)
    assert listed[TEST_EXAMPLE_NUMBER] == 200


@pytest.mark.parametrize("number", ANSWERS)
def test_the_number_decides_the_answer_every_time(tester: Integrator, number: str) -> None:
    source_a, source_b, outcomes = ANSWERS[number]
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            response = tester.search(number)
        assert response.status_code == 200
        assert response.json() == {
            "success": True,
            "data": {
                "phone_number": number,
                "source_a": source_a,
                "source_b": source_b,
                "combined": {"source_a_available": bool(source_a), "source_b_available": bool(source_b)},
            },
            "credits_remaining": 1000,
        }
        assert re.findall('desc="([a-z-]+)"', response.headers["Server-Timing"]) == outcomes.split()
        assert len(captured) == 1, captured.captured_queries  # it verifies the token
    assert_nothing_is_spent(tester)


@pytest.mark.parametrize("number", ERRORS)
def test_errors_are_those_of_a_live_token_and_store_nothing(tester: Integrator, number: str) -> None:
    status, detail = ERRORS[number]
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            response = tester.search(number)
        assert (response.status_code, response.json()) == (status, {"detail": detail})
        assert ("Retry-After" in response.headers) == (status in (429, 503))
        assert ("Server-Timing" in response.headers) == (status == 500)
        assert len(captured) == 1, captured.captured_queries
    assert response.headers["RateLimit-Policy"] == '"token";q=30;w=60'
    if status == 429:
        assert response.headers["RateLimit"] == f'"token";r=0;t={response.headers["Retry-After"]}'
    assert tester.search(number, Idempotency_Key="k").status_code == status
    assert not IdempotencyRecord.objects.exists()
    assert tester.search(BOTH, Idempotency_Key="k").status_code == 200
    assert_nothing_is_spent(tester)


def test_the_slow_answer_takes_most_of_the_deadline(tester: Integrator) -> None:
    durations = re.findall(r"dur=([0-9.]+)", tester.search(SLOW).headers["Server-Timing"])
    assert [float(ms) >= 90 for ms in durations] == [True, True]


# --- What is as with a live token ------------------------------------------------------------------------------------


def test_the_own_limit_holds_and_the_live_one_does_not(tester: Integrator, settings: Any) -> None:
    settings.TEST_RATE_LIMIT, settings.RATE_LIMIT = (2, 3600), (1, 60)
    assert [tester.search(BOTH).status_code for _ in range(3)] == [200, 200, 429]
    response = tester.search(BOTH)
    assert response.headers["RateLimit-Policy"] == '"token";q=2;w=3600'
    assert int(response.headers["Retry-After"]) > 60
    live = Integrator()
    assert [live.search().status_code for _ in range(2)] == [200, 429]


def test_a_repeat_is_replayed(tester: Integrator) -> None:
    first = tester.search(SPAM, Idempotency_Key="k")
    repeat = tester.search(SPAM, Idempotency_Key="k")
    assert (first.content, "Idempotent-Replayed" in first.headers) == (repeat.content, False)
    assert repeat.headers["Idempotent-Replayed"] == "true"
    reused = tester.search(BOTH, Idempotency_Key="k")
    assert (reused.status_code, reused.json()["detail"]) == (400, "Idempotency-Key was used with another query")
    assert IdempotencyRecord.objects.get().entry_id is None
    assert_nothing_is_spent(tester)


def test_a_key_is_not_shared_between_test_and_live(tester: Integrator) -> None:
    live = Integrator()
    bodies: dict[Integrator, Any] = {}
    for one, other in ((tester, live), (live, tester)):
        for integrator in (one, other):
            response = integrator.search(BOTH, Idempotency_Key="k")
            bodies.setdefault(integrator, response.json())
            assert response.json() == bodies[integrator]
    assert (bodies[tester]["credits_remaining"], bodies[live]["credits_remaining"]) == (1000, 9)
    assert bodies[live]["data"]["source_a"]["name"] == "Local Name"
    assert (live.debits(), tester.debits()) == (1, 0)


# --- What decides the mode -------------------------------------------------------------------------------------------


def signed(token: ApiToken, **claims: Any) -> str:
    backend = tokens._backend(settings.JWT_SIGNING_KEY)
    known = backend.decode(tokens._sign(token.jti, timedelta(days=1)))  # type: ignore[arg-type]
    return str(backend.encode({**known, **claims}))


def test_a_claim_makes_no_live_token_a_test_token(tester: Integrator) -> None:
    live = Integrator()
    for claim in (True, 1, "true"):
        live.key = signed(live.token, test=claim)
        assert live.search().json()["data"]["source_a"]["name"] == "Local Name"
    assert (live.balance(), live.debits()) == (7, 3)
    tester.key = signed(tester.token, test=False)
    assert tester.search().json()["credits_remaining"] == 1000
    assert (tester.balance(), tester.debits()) == (0, 0)


def test_a_test_token_cannot_pay_whatever_asks_for_it(tester: Integrator, settings: Any) -> None:
    for charge_empty in (True, False):
        settings.CHARGE_EMPTY = charge_empty
        assert tester.search(NOTHING).status_code == 200
    with pytest.raises(charging.NoCreditsLeft):
        awaited.charge(token=tester.token, request_id="r", number=BOTH, answer={})
    assert_nothing_is_spent(tester)


# --- Statistics, metrics, log ----------------------------------------------------------------------------------------


def test_every_request_has_the_outcome_test(tester: Integrator, settings: Any) -> None:
    settings.TEST_RATE_LIMIT = (6, 60)
    before = here()
    for query in (BOTH, FAILED, NO_CREDITS, RATE_LIMITED, OVERLOADED, "x", BOTH):
        tester.search(query)
    assert counted() == {"test": 7}
    after = here()
    changed = {sample: value for sample, value in after.items() if value != before.get(sample, 0.0)}
    names = {name for name, _ in changed}
    assert {name for name in names if not name.endswith("_created")} == {
        "callerid_searches_total",
        *(f"callerid_http_request_duration_seconds_{part}" for part in ("bucket", "count", "sum")),
    }
    labels = {value for _, pairs in changed for key, value in pairs if key in ("outcome", "page")}
    assert labels == {"test"}


def test_the_log_line_names_the_mode(tester: Integrator, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "callerid.request")
    tester.search(BOTH)
    Integrator().search()
    lines = [record.getMessage() for record in caplog.records if record.name == "callerid.request"]
    assert [f"token={tester.token.pk} test=yes " in lines[0], "test=" in lines[1]] == [True, False]


# --- Documentation ---------------------------------------------------------------------------------------------------


def test_the_numbers_are_documented_in_both_places(client: Client) -> None:
    page = (ROOT / "docs" / "test-mode.md").read_text(encoding="utf-8")
    assert re.findall(r"^\|.*\|$", page, re.MULTILINE) == test_mode.table().splitlines()
    assert f"`credits_remaining` is always {charging.TEST_BALANCE}" in page
    description = client.get("/schema").json()["paths"]["/callerid/search"]["post"]["description"]
    assert description.endswith(test_mode.table())
