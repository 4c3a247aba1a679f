"""A retry with its Idempotency-Key is not charged again, whatever happened in between."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts import charging, idempotency, tokens
from accounts.models import IdempotencyRecord
from console import erasure
from tests import awaited
from tests.api import NUMBER, Integrator, claim
from tests.connectors import Knows

ANOTHER_QUERY = {"detail": "Idempotency-Key was used with another query"}


def age(hours: float) -> None:
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=hours))


def test_replay_has_the_same_bytes_and_is_not_charged(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    second = integrator.search(Idempotency_Key="k")
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.headers["X-Request-ID"] != second.headers["X-Request-ID"]
    assert integrator.balance() == 9
    assert len(Knows.calls) == 2  # one for each slot, none for the replay
    assert "Server-Timing" not in second.headers


def test_replay_needs_no_credits(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=1)
    first = integrator.search(Idempotency_Key="k")
    assert integrator.search().status_code == 403
    assert integrator.search(Idempotency_Key="k").content == first.content


def test_another_query_with_the_same_key_gets_400(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    response = integrator.search("493023125043", Idempotency_Key="k")
    assert (response.status_code, response.json()) == (400, ANOTHER_QUERY)
    assert integrator.balance() == 9


def test_key_belongs_to_its_token(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    other = Integrator()
    assert "Idempotent-Replayed" not in other.search(Idempotency_Key="k").headers
    assert other.balance() == 9


def test_key_survives_a_rotation(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    integrator.key = tokens.rotate(token=integrator.token).api_key
    assert integrator.search(Idempotency_Key="k").content == first.content
    assert integrator.balance() == 9


def test_key_is_new_after_24_hours(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    age(hours=23.99)
    assert integrator.search(Idempotency_Key="k").headers["Idempotent-Replayed"] == "true"
    age(hours=24)
    fresh = integrator.search("493023125043", Idempotency_Key="k")
    assert (fresh.status_code, fresh.json()["credits_remaining"]) == (200, 8)
    assert "Idempotent-Replayed" not in fresh.headers
    assert IdempotencyRecord.objects.count() == 1


@pytest.mark.parametrize("source", ["tests.connectors.Fails", "tests.connectors.Raises"])
def test_failure_is_not_stored(integrator: Integrator, settings: Any, source: str) -> None:
    settings.SOURCE_A = settings.SOURCE_B = source
    assert integrator.search(Idempotency_Key="k").status_code == 500
    assert not IdempotencyRecord.objects.exists()
    settings.SOURCE_A = "tests.connectors.Knows"
    assert integrator.search(Idempotency_Key="k").status_code == 200
    assert integrator.balance() == 9


def test_replay_counts_towards_the_rate_limit(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (2, 60)
    integrator.search(Idempotency_Key="k")
    integrator.search(Idempotency_Key="k")
    assert integrator.search(Idempotency_Key="k").status_code == 429


def test_erased_answer_is_searched_again_uncharged(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    integrator.search()
    erasure.erase([NUMBER])
    Knows.calls.clear()
    again = integrator.search(Idempotency_Key="k")
    assert (again.status_code, again.json()["credits_remaining"]) == (200, 9)
    assert again.json()["data"]["source_a"]["name"] == "Local Name"
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Knows.calls
    assert integrator.balance() == 8


def test_erased_answer_is_searched_again_without_credits(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=1)
    integrator.search(Idempotency_Key="k")
    erasure.erase([NUMBER])
    assert integrator.search(Idempotency_Key="k").status_code == 200


def test_erased_record_gives_one_uncharged_search_only(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    erasure.erase([NUMBER])
    Knows.calls.clear()
    numbers = [f"4930231250{index}" for index in range(50, 60)]
    responses = [integrator.search(number, Idempotency_Key="k") for number in numbers]
    assert [response.status_code for response in responses] == [200] + [400] * 9
    assert Knows.calls == numbers[:1] * 2
    again = integrator.search(numbers[0], Idempotency_Key="k")
    assert again.content == responses[0].content
    assert len(Knows.calls) == 2
    assert (integrator.balance(), integrator.debits()) == (9, 1)


def test_failed_search_of_an_erased_record_stays_paid(integrator: Integrator, settings: Any) -> None:
    integrator.search(Idempotency_Key="k")
    erasure.erase([NUMBER])
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.Fails"
    assert integrator.search(Idempotency_Key="k").status_code == 500
    assert IdempotencyRecord.objects.get().number_hash is None
    settings.SOURCE_A = "tests.connectors.Knows"
    assert integrator.search(Idempotency_Key="k").status_code == 200
    assert integrator.debits() == 1


def test_erased_uncharged_answer_is_a_new_search(integrator: Integrator, settings: Any) -> None:
    settings.CHARGE_EMPTY = False
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.KnowsNothing"
    integrator.search(Idempotency_Key="k")
    erasure.erase([NUMBER])
    settings.SOURCE_A = "tests.connectors.Knows"
    assert "Idempotent-Replayed" not in integrator.search(Idempotency_Key="k").headers
    assert integrator.debits() == 1


def expire_claims() -> None:
    IdempotencyRecord.objects.update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def charge(claimed: idempotency.Claim, name: str) -> charging.ChargedAnswer:
    return awaited.charge(
        token=claimed.token, request_id="r", number=claimed.number, answer={"name": name}, claim=claimed
    )


def test_expired_claim_is_taken_over_and_charged_once(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    won = charge(claim(integrator.token, "k"), "winner")
    lost = charge(stale, "stale")
    assert (lost.body, lost.replayed) == (won.body, True)
    assert won.body == {"name": "winner", "credits_remaining": 9}
    assert (integrator.balance(), integrator.debits()) == (9, 1)


def test_expired_claim_without_credits_replays_the_new_answer(db: None) -> None:
    integrator = Integrator(credits=1)
    stale = claim(integrator.token, "k")
    expire_claims()
    won = charge(claim(integrator.token, "k"), "winner")
    assert charge(stale, "stale").body == won.body
    assert integrator.balance() == 0


def test_expired_claim_is_charged_when_not_taken_over(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    assert not charge(stale, "late").replayed
    assert integrator.debits() == 1


def test_expired_claim_never_answers_for_another_number(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    charge(claim(integrator.token, "k", "493023125043"), "winner")
    with pytest.raises(idempotency.KeyReused):
        charge(stale, "stale")
    assert integrator.debits() == 1


def test_expired_claim_is_charged_when_the_new_one_failed(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    awaited.release(claim(integrator.token, "k"))
    assert charge(stale, "stale").body == {"name": "stale", "credits_remaining": 9}


def test_expired_claim_is_not_charged_while_another_searches(integrator: Integrator, settings: Any) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    claim(integrator.token, "k")
    settings.SEARCH_DEADLINE_S = 0.05
    with pytest.raises(idempotency.StillInFlight):
        charge(stale, "stale")
    assert (integrator.balance(), integrator.debits()) == (10, 0)


def test_expired_claim_does_not_release_the_new_one(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    expire_claims()
    charge(claim(integrator.token, "k"), "winner")
    assert not awaited.release(stale)
    assert IdempotencyRecord.objects.get().answer


def test_another_number_gets_400_while_the_key_is_in_use(integrator: Integrator) -> None:
    claim(integrator.token, "k", "493023125043")
    response = integrator.search(Idempotency_Key="k")
    assert (response.status_code, response.json()) == (400, ANOTHER_QUERY)
    assert "Server-Timing" not in response.headers
    assert Knows.calls == []


def test_claim_that_outlasts_the_wait_gets_500_uncharged(integrator: Integrator, settings: Any) -> None:
    claim(integrator.token, "k")
    settings.SEARCH_DEADLINE_S = 0.05
    response = integrator.search(Idempotency_Key="k")
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert "Server-Timing" not in response.headers
    assert Knows.calls == []
    assert integrator.debits() == 0


def test_number_erased_during_a_search_is_charged_once(integrator: Integrator) -> None:
    claimed = claim(integrator.token, "k")
    erasure.erase([NUMBER])
    assert not charge(claimed, "x").replayed
    assert integrator.debits() == 1


def test_unexpected_error_releases_the_claim(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(charging, "charge", fail)
    response = integrator.search(Idempotency_Key="k")
    assert response.status_code == 500
    assert "Server-Timing" not in response.headers
    assert not IdempotencyRecord.objects.exists()


def test_uncharged_answer_is_replayed(integrator: Integrator, settings: Any) -> None:
    settings.CHARGE_EMPTY = False
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.KnowsNothing"
    first = integrator.search(Idempotency_Key="k")
    second = integrator.search(Idempotency_Key="k")
    assert first.content == second.content
    assert second.headers["Idempotent-Replayed"] == "true"
    assert integrator.balance() == 10


@pytest.mark.parametrize("key", ["!", "~" * 255, "a/b+c=", '"quoted"'])
def test_1_to_255_visible_ascii_characters_are_a_key(integrator: Integrator, key: str) -> None:
    integrator.search(Idempotency_Key=key)
    assert integrator.search(Idempotency_Key=key).headers["Idempotent-Replayed"] == "true"


def test_prune_deletes_records_older_than_24_hours(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="old")
    age(hours=25)
    integrator.search(Idempotency_Key="new")
    assert idempotency.prune() == 1
    assert json.loads(IdempotencyRecord.objects.get().answer)["credits_remaining"] == 8
    assert integrator.debits() == 2
