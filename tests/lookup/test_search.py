"""A search: two independent slots, one deadline, merged fields; an outage is never reported as "not found"."""

import asyncio
import gc
import re
import threading
import weakref
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from accounts import credits, tokens
from accounts.models import IdempotencyRecord
from core.postgresql import replication
from lookup.answers import Found
from lookup.connectors import registry
from lookup.views import SearchView
from phonebook import cache_versions, number_query
from phonebook.models import NumberRule
from tests import connectors
from tests.api import NUMBER, Integrator
from tests.awaited import search
from tests.lookup.vendors.searches import until
from tests.mock_vendors import Vendors

T = "tests.connectors."


@pytest.fixture
def ask(integrator: Integrator, settings: Any) -> Any:
    """Binds both slots, searches and returns the response."""

    def bound(source_a: str, source_b: str, **headers: str) -> Any:
        settings.SOURCE_A = ",".join(T + name for name in source_a.split(","))
        settings.SOURCE_B = ",".join(T + name for name in source_b.split(","))
        return integrator.search(**headers)

    return bound


def outcomes(response: Any) -> list[str]:
    pattern = r'source_a;desc="([a-z-]+)";dur=\d+\.\d, source_b;desc="([a-z-]+)";dur=\d+\.\d'
    match = re.fullmatch(pattern, response.headers["Server-Timing"])
    assert match, response.headers["Server-Timing"]
    return list(match.groups())


def test_search_is_freed_without_the_garbage_collector(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[Any] = []
    finalize = SearchView.finalize_response

    def noted(self: SearchView, *args: Any) -> Any:
        views.append(weakref.ref(self))
        return finalize(self, *args)

    assert ask("Knows", "Knows").status_code == 200  # loads the rate limit's script into Redis, after an error
    monkeypatch.setattr(SearchView, "finalize_response", noted)
    gc.disable()
    try:
        assert ask("Knows", "Knows").status_code == 200
        until(lambda: [view() for view in views] == [None])  # the loop's thread ends its turn
    finally:
        gc.enable()


def test_an_empty_answer_is_200_and_charged(ask: Any, integrator: Integrator) -> None:
    response = ask("KnowsNothing", "KnowsNothing")
    assert (response.status_code, response.json()["credits_remaining"]) == (200, 9)
    assert response.json()["data"]["combined"] == {"source_a_available": False, "source_b_available": False}
    assert integrator.debits() == 1


def test_empty_answers_are_free_without_charge_empty(ask: Any, integrator: Integrator, settings: Any) -> None:
    settings.CHARGE_EMPTY = False
    assert ask("KnowsNothing", "Fails").json()["credits_remaining"] == 10
    assert ask("KnowsNothing", "Knows").json()["credits_remaining"] == 9
    assert integrator.debits() == 1


def test_impossible_number_is_free_and_asks_no_vendor(integrator: Integrator, settings: Any, vendors: Vendors) -> None:
    settings.CHARGE_IMPOSSIBLE = False
    response = integrator.search("12025550")  # too short for +1
    assert (response.status_code, response.json()["credits_remaining"]) == (200, 10)
    assert response.json()["data"]["combined"] == {"source_a_available": False, "source_b_available": False}
    assert not [*vendors.a.heads, *vendors.b.heads]
    NumberRule.objects.create(number=12025550, name="Front door")
    response = integrator.search("12025550")
    assert response.json()["data"]["source_a"] == {"name": "Front door"}
    assert response.json()["credits_remaining"] == 9
    assert not [*vendors.a.heads, *vendors.b.heads]
    integrator.search("12025550123")
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (1, 1)


def test_impossible_number_is_charged_by_default(integrator: Integrator, vendors: Vendors) -> None:
    assert integrator.search("12025550").json()["credits_remaining"] == 9
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (1, 1)


@pytest.mark.parametrize(
    "failing",
    ["Fails", "Raises", "Lies", "WrongType", "Exits", "RemoteFails", "RemoteExits", "Hangs", "Dawdles"],
)
@pytest.mark.parametrize("slot", ["a", "b"])
def test_one_failed_slot_leaves_the_others_answer(ask: Any, settings: Any, failing: str, slot: str) -> None:
    if failing in ("Hangs", "Dawdles"):
        settings.SEARCH_DEADLINE_S = 0.2
    response = ask(failing, "Knows") if slot == "a" else ask("Knows", failing)
    assert response.status_code == 200
    combined = response.json()["data"]["combined"]
    assert combined == {"source_a_available": slot == "b", "source_b_available": slot == "a"}
    assert outcomes(response) == (["failed", "found"] if slot == "a" else ["found", "failed"])
    assert "Too Late" not in response.text


@pytest.mark.parametrize("failing", ["Fails", "Raises", "Exits", "RemoteFails", "RemoteExits", "Hangs"])
def test_both_failed_is_500_and_costs_nothing(ask: Any, integrator: Integrator, settings: Any, failing: str) -> None:
    if failing == "Hangs":
        settings.SEARCH_DEADLINE_S = 0.2
    response = ask(failing, "HangsToo" if failing == "Hangs" else failing)
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert outcomes(response) == ["failed", "failed"]
    assert "RateLimit" in response.headers
    assert (integrator.balance(), integrator.debits()) == (10, 0)


def test_vendors_leave_time_for_the_charge(
    ask: Any, integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their deadline counts from the request: the database may have been slow before they were called."""
    settings.SEARCH_DEADLINE_S = 1.0

    async def slow() -> None:
        await asyncio.sleep(0.8)

    monkeypatch.setattr(replication, "require_commits", slow)
    response = ask("Hangs", "Knows")
    assert (response.status_code, outcomes(response)) == (200, ["failed", "found"])
    assert integrator.debits() == 1


NAME_A, NAME_B = {"name": "Local Name", "location": "Local Place"}, {"name": "Local Name", "spam": False}


@pytest.mark.parametrize(
    ("source_a", "source_b", "data_a", "data_b", "statuses", "not_called"),
    [
        ("Knows", "Knows", NAME_A, NAME_B, "found found", ""),
        ("KnowsName", "KnowsNothing", {"name": "Only A Name"}, {}, "found not-found", ""),
        ("KnowsNothing", "Fails", {}, {}, "not-found failed", ""),
        ("KnowsNothing,Fails", "Knows", {}, NAME_B, "failed found", ""),
        # From the first source that knows it, and none is called that cannot add a field.
        (
            *("KnowsName,Knows", "KnowsNothing,Knows"),
            *({"name": "Only A Name", "location": "Local Place"}, NAME_B, "found found", ""),
        ),
        ("Knows,KnowsPlace", "Knows", NAME_A, NAME_B, "found found", "KnowsPlace"),
        (
            *("KnowsName,RemoteKnowsName,KnowsPlace", "Knows"),
            *({"name": "Only A Name", "location": "Only A Place"}, NAME_B, "found found", "RemoteKnowsName"),
        ),
        # A vendor is called before a later local source counts.
        (
            *("RemoteKnowsName,Knows", "Knows"),
            *({"name": "Remote Only Name", "location": "Local Place"}, NAME_B, "found found", ""),
        ),
        ("Hangs,Knows", "Knows", NAME_A, NAME_B, "found found", ""),
    ],
)
def test_each_field_comes_from_the_first_source_that_knows_it(
    ask: Any, settings: Any, source_a: str, source_b: str, data_a: Any, data_b: Any, statuses: str, not_called: str
) -> None:
    if "Hangs" in source_a:
        settings.SEARCH_DEADLINE_S = 0.2
    response = ask(source_a, source_b)
    data = response.json()["data"]
    assert (data["source_a"], data["source_b"]) == (data_a, data_b)
    assert data["combined"] == {"source_a_available": bool(data_a), "source_b_available": bool(data_b)}
    assert outcomes(response) == statuses.split()
    if not_called:
        assert getattr(connectors, not_called).calls == []


def test_a_late_answer_changes_neither_response_nor_ledger(ask: Any, integrator: Integrator, settings: Any) -> None:
    settings.SEARCH_DEADLINE_S = 0.2
    response = ask("Hangs", "Knows", Idempotency_Key="k")
    connectors.Hangs.released.set()
    registry.reset()  # waits for the late call
    assert response.json()["data"]["source_a"] == {}
    replay = ask("Hangs", "Knows", Idempotency_Key="k")
    assert (replay.headers["Idempotent-Replayed"], replay.content) == ("true", response.content)
    assert (integrator.balance(), integrator.debits()) == (9, 1)


def test_remote_sources_of_both_slots_run_at_once(ask: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(2, timeout=5)

    def meet(self: Any, number: str, timeout_s: float) -> Any:
        barrier.wait()
        return Found(name="Met", spam=True)

    monkeypatch.setattr(connectors.RemoteKnows, "answer", meet)
    assert outcomes(ask("RemoteKnows", "RemoteKnowsToo")) == ["found", "found"]


def test_an_operator_rule_overrides_every_source(ask: Any) -> None:
    NumberRule.objects.create(number=int(NUMBER), spam=True, name="The Operator's Name")
    data = ask("Knows", "Knows").json()["data"]
    assert data["source_a"] == {"name": "The Operator's Name", "location": "Local Place"}
    assert data["source_b"] == {"name": "The Operator's Name", "spam": True}
    assert len(connectors.Knows.calls) == 1  # slot B had nothing left to ask


def test_a_rule_answers_where_every_source_fails(ask: Any) -> None:
    rule = NumberRule.objects.create(number=int(NUMBER), spam=True)
    assert ask("Fails", "Fails").json()["data"]["source_b"] == {"spam": True}
    NumberRule.objects.update(spam=False)
    assert ask("Fails", "Fails").json()["data"]["source_b"] == {"spam": False}
    NumberRule.objects.filter(pk=rule.pk).update(number=int(NUMBER) + 1)
    assert ask("KnowsNothing", "KnowsNothing").json()["data"]["source_b"] == {}


def test_the_longest_rule_for_a_number_applies(ask: Any) -> None:
    """A whole number before any prefix; a shorter rule adds nothing to a longer one."""
    found = []
    for length, name in ((1, "country"), (4, "city"), (8, "company"), (len(NUMBER), "number")):
        prefix = length < len(NUMBER)
        spam = None if length == 4 else True
        NumberRule.objects.create(number=int(NUMBER[:length]), is_prefix=prefix, spam=spam, name=name)
        found.append(ask("KnowsNothing", "KnowsNothing").json()["data"]["source_b"])
    spam_fields = [source.get("spam") for source in found]
    assert [source["name"] for source in found] == ["country", "city", "company", "number"]
    assert spam_fields == [True, None, True, True]


def test_a_rule_applies_to_no_number_that_it_is_not_for(ask: Any) -> None:
    number = int(NUMBER)
    for other in (number // 10, number // 10 + 1, number * 10, number + 1):
        NumberRule.objects.create(number=other, name="other", is_prefix=other > number // 10)
    assert ask("KnowsNothing", "KnowsNothing").json()["data"]["source_a"] == {}


def test_no_transaction_is_open_while_a_source_is_asked(
    transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch, quiet_sources: None
) -> None:
    seen: list[bool] = []

    def note(self: Any, number: str, timeout_s: float) -> Any:
        seen.append(connection.in_atomic_block)
        return Found(name="x")

    monkeypatch.setattr(connectors.Knows, "answer", note)
    assert Integrator().search(Idempotency_Key="k").status_code == 200
    assert seen == [False, False]


def test_the_cache_version_is_read_only_with_vendors(db: None, settings: Any) -> None:
    def statements() -> list[bool]:
        """Of each, whether it reads cache versions."""
        with CaptureQueriesContext(connection) as ran:
            search(NUMBER)
        read = [query["sql"] for query in ran.captured_queries if "lookup_sourcepause" not in query["sql"]]
        return ["phonebook_cacheversion" in statement for statement in read]

    settings.SOURCE_A, settings.SOURCE_B = T + "RemoteKnows", T + "RemoteKnowsToo"
    assert statements() == [True]
    settings.SOURCE_A, settings.SOURCE_B = T + "Knows", T + "Knows"
    assert statements() == [False]


def refuse(*args: Any) -> Any:
    raise DatabaseError


@pytest.mark.parametrize("combined", [True, False])
def test_a_cached_answer_is_not_used_after_a_bump(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch, combined: bool
) -> None:
    if not combined:
        monkeypatch.setattr(number_query, "fetch_rows", refuse)
    settings.SOURCE_A, settings.SOURCE_B = T + "RemoteKnows", T + "KnowsNothing"
    for calls in (1, 2):
        search(NUMBER)
        search(NUMBER)
        assert connectors.RemoteKnows.calls == [NUMBER] * calls
        cache_versions.bump([NUMBER])


def test_a_search_finishes_though_its_token_is_revoked_meanwhile(
    ask: Any, integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoke(self: Any, number: str, timeout_s: float) -> Any:
        tokens.revoke(token=integrator.token)
        return Found(name="x")

    monkeypatch.setattr(connectors.Knows, "answer", revoke)
    assert ask("Knows", "KnowsNothing").json()["credits_remaining"] == 9
    assert integrator.search().status_code == 401
    assert integrator.debits() == 1


def test_a_last_credit_spent_meanwhile_is_403_without_timing(
    ask: Any, integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(self: Any, number: str, timeout_s: float) -> Any:
        credits.adjust(token=integrator.token, amount=-10, actor="test", reason="gone meanwhile")
        return Found(name="x")

    monkeypatch.setattr(connectors.Knows, "answer", spend)
    response = ask("Knows", "KnowsNothing", Idempotency_Key="k")
    assert (response.status_code, response.json()) == (403, {"detail": "No credits remaining"})
    assert "Server-Timing" not in response.headers
    assert (integrator.balance(), integrator.debits()) == (0, 0)
    assert not IdempotencyRecord.objects.exists()
