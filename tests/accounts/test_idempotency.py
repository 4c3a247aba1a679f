"""A retry is not charged again, whatever happened in between."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from accounts import credits, erasure, idempotency, tokens
from accounts.hashing import keyed_hash
from accounts.models import IdempotencyRecord
from tests.api import NUMBER, Integrator, claim
from tests.connectors import Knows

ANOTHER_QUERY = {"detail": "Idempotency-Key was used with another query"}


def age(hours: float) -> None:
    IdempotencyRecord.objects.update(created_at=timezone.now() - timedelta(hours=hours))


def test_a_repeat_gets_the_same_bytes_and_is_not_charged(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    second = integrator.search(Idempotency_Key="k")
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert first.headers["X-Request-ID"] != second.headers["X-Request-ID"]
    assert integrator.balance() == 9
    assert len(Knows.calls) == 2  # once a slot: the repeat asked nobody
    assert "Server-Timing" not in second.headers


def test_a_repeat_is_answered_though_the_credits_have_run_out(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=1)
    first = integrator.search(Idempotency_Key="k")
    assert integrator.search().status_code == 403
    assert integrator.search(Idempotency_Key="k").content == first.content


def test_another_query_under_the_same_key_is_400(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    response = integrator.search("493023125043", Idempotency_Key="k")
    assert (response.status_code, response.json()) == (400, ANOTHER_QUERY)
    assert integrator.balance() == 9


def test_a_key_belongs_to_its_token(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    other = Integrator()
    assert "Idempotent-Replayed" not in other.search(Idempotency_Key="k").headers
    assert other.balance() == 9


def test_a_key_survives_a_rotation(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    integrator.key = tokens.rotate(token=integrator.token).api_key
    assert integrator.search(Idempotency_Key="k").content == first.content
    assert integrator.balance() == 9


def test_after_24_hours_a_key_is_new_even_for_another_query(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    age(hours=23.99)
    assert integrator.search(Idempotency_Key="k").headers["Idempotent-Replayed"] == "true"
    age(hours=24)
    fresh = integrator.search("493023125043", Idempotency_Key="k")
    assert (fresh.status_code, fresh.json()["credits_remaining"]) == (200, 8)
    assert "Idempotent-Replayed" not in fresh.headers
    assert IdempotencyRecord.objects.count() == 1


@pytest.mark.parametrize("source", ["tests.connectors.Fails", "tests.connectors.Raises"])
def test_a_failure_is_not_remembered(integrator: Integrator, settings: Any, source: str) -> None:
    settings.SOURCE_A = settings.SOURCE_B = source
    assert integrator.search(Idempotency_Key="k").status_code == 500
    settings.SOURCE_A = "tests.connectors.Knows"
    assert integrator.search(Idempotency_Key="k").status_code == 200
    assert integrator.balance() == 9


def test_a_repeat_counts_towards_the_rate_limit(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (2, 60)
    integrator.search(Idempotency_Key="k")
    integrator.search(Idempotency_Key="k")
    assert integrator.search(Idempotency_Key="k").status_code == 429


def test_neither_key_nor_number_is_stored_in_clear_outside_the_answer(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="a-memorable-key")
    row = IdempotencyRecord.objects.values("key_hash", "number_hash").get()
    assert len(bytes(row["key_hash"])) == len(bytes(row["number_hash"] or b"")) == 32
    assert b"memorable" not in bytes(row["key_hash"])


def test_an_emptied_answer_is_looked_up_anew_and_not_charged(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    integrator.search()
    erasure.forget([NUMBER])
    Knows.calls.clear()
    again = integrator.search(Idempotency_Key="k")
    assert (again.status_code, again.json()["credits_remaining"]) == (200, 9)
    assert again.json()["data"]["source_a"]["name"] == "Local Name"
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Knows.calls
    assert integrator.balance() == 8


def test_an_emptied_answer_is_looked_up_without_any_credit_left(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=1)
    integrator.search(Idempotency_Key="k")
    erasure.forget([NUMBER])
    assert integrator.search(Idempotency_Key="k").status_code == 200


def test_an_emptied_record_gives_one_free_lookup_and_no_more(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    erasure.forget([NUMBER])
    Knows.calls.clear()
    numbers = [f"4930231250{index}" for index in range(50, 60)]
    responses = [integrator.search(number, Idempotency_Key="k") for number in numbers]
    assert [response.status_code for response in responses] == [200] + [400] * 9
    assert Knows.calls == numbers[:1] * 2
    again = integrator.search(numbers[0], Idempotency_Key="k")
    assert again.content == responses[0].content
    assert len(Knows.calls) == 2
    assert (integrator.balance(), integrator.debits()) == (9, 1)


def test_a_failed_lookup_of_an_emptied_record_stays_paid(integrator: Integrator, settings: Any) -> None:
    integrator.search(Idempotency_Key="k")
    erasure.forget([NUMBER])
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.Fails"
    assert integrator.search(Idempotency_Key="k").status_code == 500
    assert IdempotencyRecord.objects.get().number_hash is None
    settings.SOURCE_A = "tests.connectors.Knows"
    assert integrator.search(Idempotency_Key="k").status_code == 200
    assert integrator.debits() == 1


def test_an_emptied_free_answer_is_a_new_search(integrator: Integrator, settings: Any) -> None:
    settings.CHARGE_EMPTY = False
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.KnowsNothing"
    integrator.search(Idempotency_Key="k")
    erasure.forget([NUMBER])
    settings.SOURCE_A = "tests.connectors.Knows"
    assert "Idempotent-Replayed" not in integrator.search(Idempotency_Key="k").headers
    assert integrator.debits() == 1


def lapse() -> None:
    IdempotencyRecord.objects.update(claim_expires_at=timezone.now() - timedelta(seconds=1))


def charge(claimed: idempotency.Claim, name: str) -> credits.Charge:
    return credits.charge(
        token=claimed.token, request_id="r", number=claimed.number, answer={"name": name}, claim=claimed
    )


def test_a_lapsed_claim_is_taken_over_and_charged_once(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    won = charge(claim(integrator.token, "k"), "winner")
    lost = charge(stale, "stale")
    assert (lost.body, lost.replayed) == (won.body, True)
    assert won.body == {"name": "winner", "credits_remaining": 9}
    assert (integrator.balance(), integrator.debits()) == (9, 1)


def test_a_lapsed_claim_gets_the_winners_answer_without_credits(db: None) -> None:
    integrator = Integrator(credits=1)
    stale = claim(integrator.token, "k")
    lapse()
    won = charge(claim(integrator.token, "k"), "winner")
    assert charge(stale, "stale").body == won.body
    assert integrator.balance() == 0


def test_a_lapsed_claim_that_nobody_took_over_still_pays(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    assert not charge(stale, "late").replayed
    assert integrator.debits() == 1


def test_a_lapsed_claim_never_answers_for_another_number(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    charge(claim(integrator.token, "k", "493023125043"), "winner")
    with pytest.raises(idempotency.KeyReused):
        charge(stale, "stale")
    assert integrator.debits() == 1


def test_a_lapsed_claim_pays_when_who_took_it_over_failed(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    idempotency.release(claim(integrator.token, "k"))
    assert charge(stale, "stale").body == {"name": "stale", "credits_remaining": 9}


def test_a_lapsed_claim_is_not_charged_while_another_searches(integrator: Integrator, settings: Any) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    claim(integrator.token, "k")
    settings.SEARCH_DEADLINE_S = 0.05
    with pytest.raises(idempotency.StillInFlight):
        charge(stale, "stale")
    assert (integrator.balance(), integrator.debits()) == (10, 0)


def test_a_released_claim_leaves_nothing_behind(integrator: Integrator) -> None:
    assert idempotency.release(claim(integrator.token, "k"))
    assert not IdempotencyRecord.objects.exists()


def test_a_lapsed_claim_does_not_release_anothers(integrator: Integrator) -> None:
    stale = claim(integrator.token, "k")
    lapse()
    charge(claim(integrator.token, "k"), "winner")
    assert not idempotency.release(stale)
    assert IdempotencyRecord.objects.get().answer


def test_another_number_is_400_at_once_while_one_is_in_flight(integrator: Integrator) -> None:
    claim(integrator.token, "k", "493023125043")
    response = integrator.search(Idempotency_Key="k")
    assert (response.status_code, response.json()) == (400, ANOTHER_QUERY)
    assert "Server-Timing" not in response.headers
    assert Knows.calls == []


def test_a_claim_that_outlasts_the_wait_is_500_and_costs_nothing(integrator: Integrator, settings: Any) -> None:
    claim(integrator.token, "k")
    settings.SEARCH_DEADLINE_S = 0.05
    response = integrator.search(Idempotency_Key="k")
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert "Server-Timing" not in response.headers
    assert Knows.calls == []
    assert integrator.debits() == 0


def test_a_new_key_without_credits_is_403_and_not_claimed(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=0)
    assert integrator.search(Idempotency_Key="k").status_code == 403
    assert not IdempotencyRecord.objects.exists()


def test_a_number_forgotten_while_in_flight_is_charged_once(integrator: Integrator) -> None:
    claimed = claim(integrator.token, "k")
    erasure.forget([NUMBER])
    assert not charge(claimed, "x").replayed
    assert integrator.debits() == 1


@pytest.mark.parametrize("source", ["tests.connectors.Fails", "tests.connectors.Raises"])
def test_a_failed_search_leaves_no_claim_behind(integrator: Integrator, settings: Any, source: str) -> None:
    settings.SOURCE_A = settings.SOURCE_B = source
    assert integrator.search(Idempotency_Key="k").status_code == 500
    assert not IdempotencyRecord.objects.exists()


def test_an_unforeseen_error_leaves_no_claim_behind(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr(credits, "charge", fail)
    response = integrator.search(Idempotency_Key="k")
    assert response.status_code == 500
    assert "Server-Timing" not in response.headers
    assert not IdempotencyRecord.objects.exists()


def test_the_migration_empties_old_records_and_goes_back(transactional_db: None, quiet_sources: None) -> None:
    integrator = Integrator()
    for key in "ab":
        integrator.search(Idempotency_Key=key)
    claim(integrator.token, "c")
    try:
        call_command("migrate", "accounts", "0003", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM accounts_idempotencyrecord")
            assert cursor.fetchone() == (2,)
            cursor.execute("UPDATE accounts_idempotencyrecord SET answer = '' WHERE key_hash = %s", [key_hash("a")])
    finally:
        call_command("migrate", "accounts", verbosity=0)
    emptied = {bytes(r.key_hash): r.number_hash is None for r in IdempotencyRecord.objects.all()}
    assert emptied == {key_hash("a"): True, key_hash("b"): False}
    assert integrator.search(Idempotency_Key="b").headers["Idempotent-Replayed"] == "true"


def key_hash(key: str) -> bytes:
    return keyed_hash("idempotency-key", key)


def test_a_free_answer_is_remembered_too(integrator: Integrator, settings: Any) -> None:
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


def test_prune_deletes_only_what_is_older_than_24_hours(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="old")
    age(hours=25)
    integrator.search(Idempotency_Key="new")
    assert idempotency.prune() == 1
    assert json.loads(IdempotencyRecord.objects.get().answer)["credits_remaining"] == 8
    assert integrator.debits() == 2
