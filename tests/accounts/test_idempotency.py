"""A retry is not charged again, whatever happened in between."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts import credits, idempotency, tokens
from accounts.models import IdempotencyRecord
from tests.api import Integrator
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
    assert len(bytes(row["key_hash"])) == len(bytes(row["number_hash"])) == 32
    assert b"memorable" not in bytes(row["key_hash"])


def test_an_emptied_answer_is_looked_up_anew_and_not_charged(integrator: Integrator) -> None:
    integrator.search(Idempotency_Key="k")
    integrator.search()
    IdempotencyRecord.objects.update(answer="")
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
    IdempotencyRecord.objects.update(answer="")
    assert integrator.search(Idempotency_Key="k").status_code == 200


def test_whoever_loses_the_claim_gets_the_winners_answer(integrator: Integrator) -> None:
    options: Any = {"token": integrator.token, "request_id": "r", "number": "493023125042", "idempotency_key": "k"}
    won = credits.charge(**options, answer={"mine": 1})
    lost = credits.charge(**options, answer={"mine": 2})
    assert (lost.body, lost.replayed) == (won.body, True)
    assert integrator.balance() == 9


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
