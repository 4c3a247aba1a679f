"""Each request is counted once with its outcome: by hour, and by day for its token."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from accounts import charging, credits, request_statistics, tokens
from accounts.models import SearchHour, TokenDay
from core import write_buffer
from tests.api import NUMBER, Integrator


def counted() -> dict[str, int]:
    """Outcome → count by hour; the token's days must agree, except for requests without a valid token."""
    write_buffer.process_buffer.flush()
    hours = dict(SearchHour.objects.values_list("outcome", "count"))
    days = dict(TokenDay.objects.values_list("outcome", "count"))
    known = {outcome: count for outcome, count in hours.items() if outcome != "unauthorized"}
    assert days == known
    return hours


@pytest.mark.parametrize(
    ("source_a", "source_b", "outcome"),
    [
        ("Knows", "Knows", "found_both"),
        ("Knows", "KnowsNothing", "found_one"),
        ("KnowsNothing", "Knows", "found_one"),
        ("Fails", "Knows", "found_degraded"),
        ("Knows", "Fails", "found_degraded"),
        ("KnowsNothing", "KnowsNothing", "found_none"),
        ("KnowsNothing", "Fails", "none_degraded"),
        ("Fails", "Fails", "failed"),
    ],
)
def test_an_answers_outcome_depends_on_both_slots(
    integrator: Integrator, settings: Any, source_a: str, source_b: str, outcome: str
) -> None:
    settings.SOURCE_A, settings.SOURCE_B = f"tests.connectors.{source_a}", f"tests.connectors.{source_b}"
    integrator.search()
    assert counted() == {outcome: 1}


def test_an_uncharged_empty_answer_has_its_own_outcome(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.KnowsNothing"
    settings.CHARGE_EMPTY = False
    integrator.search()
    assert counted() == {"given_away": 1}
    settings.SOURCE_B = "tests.connectors.Fails"
    integrator.search()
    assert counted() == {"given_away": 1, "free_degraded": 1}
    assert integrator.balance() == 10


def test_charged_outcomes_equal_the_ledgers_searches(integrator: Integrator, settings: Any) -> None:
    for sources in (("Knows", "Fails"), ("Fails", "KnowsNothing"), ("Fails", "Fails"), ("Knows", "KnowsNothing")):
        settings.SOURCE_A, settings.SOURCE_B = (f"tests.connectors.{source}" for source in sources)
        integrator.search()
    outcomes = counted()
    assert sum(outcomes.get(outcome, 0) for outcome in request_statistics.CHARGED) == integrator.debits() == 3


def test_a_replay_is_not_counted_as_a_search(integrator: Integrator) -> None:
    for _ in range(3):
        integrator.search(Idempotency_Key="k")
    assert counted() == {"found_both": 1, "replayed": 2}


def test_refusals_are_counted_by_their_cause(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (4, 60)
    integrator.search("no number")
    integrator.search(Idempotency_Key="not\twell-formed")
    credits.adjust(token=integrator.token, amount=-10, actor="test", reason="none left")
    integrator.search()
    integrator.search()
    assert integrator.search().status_code == 429
    assert counted() == {"invalid": 2, "no_credits": 2, "rate_limited": 1}


def test_requests_refused_before_authentication_are_invalid(integrator: Integrator) -> None:
    responses = [
        integrator.client.get("/callerid/search"),
        integrator.post(b"{}", "text/plain"),
        integrator.post(b"not json"),
        integrator.post(b" " * 20_000),
    ]
    assert [response.status_code for response in responses] == [405, 415, 400, 413]
    write_buffer.process_buffer.flush()
    assert list(SearchHour.objects.values_list("outcome", "count")) == [("invalid", 4)]
    assert not TokenDay.objects.exists()


def test_unauthorized_requests_count_for_no_token(integrator: Integrator, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (2, 60)
    statuses = [integrator.send({"api_key": "x", "query": NUMBER}).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    assert counted() == {"unauthorized": 3}


def test_a_charge_refused_after_the_search_is_no_credits(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**kwargs: Any) -> None:
        raise charging.NoCreditsLeft

    monkeypatch.setattr(charging, "charge", refuse)
    assert integrator.search().status_code == 403
    assert counted() == {"no_credits": 1}


def test_an_unexpected_error_counts_as_failed(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_it(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(charging, "charge", raise_it)
    assert integrator.search().status_code == 500
    assert counted() == {"failed": 1}


def test_hours_and_days_are_utc(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tokens.issue(name="other", initial_credits=0, actor="test").token
    for when in ("2026-03-01T22:59:59", "2026-03-01T23:00:00", "2026-03-02T00:00:00"):
        moment = datetime.fromisoformat(when).replace(tzinfo=UTC)
        monkeypatch.setattr(request_statistics, "time", SimpleNamespace(time=moment.timestamp))
        integrator.search()
    write_buffer.process_buffer.flush()
    assert [f"{row.hour:%d %H:%M}" for row in SearchHour.objects.order_by("hour")] == [
        "01 22:00",
        "01 23:00",
        "02 00:00",
    ]
    days = TokenDay.objects.order_by("day").values_list("token_id", "day", "count")
    assert [(pk, str(day), count) for pk, day, count in days] == [
        (integrator.token.pk, "2026-03-01", 2),
        (integrator.token.pk, "2026-03-02", 1),
    ]
    assert not other.days.exists()
