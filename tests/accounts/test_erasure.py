"""What is written about a number goes out of the ledger and the remembered answers; nothing else does."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts import audit, credits, erasure
from accounts.models import ApiToken, CreditEntry, IdempotencyRecord
from tests.api import NUMBER, Integrator, claim

OTHER = "493023125043"


def charge(token: ApiToken, number: str = NUMBER, key: str | None = None) -> Any:
    claimed = claim(token, key, number) if key else None
    return credits.charge(token=token, request_id="r", number=number, answer={"name": "x"}, claim=claimed).body


def searches() -> dict[str, int]:
    """How many rows of the ledger say for which number they are."""
    rows = CreditEntry.objects.filter(kind="search")
    return {"known": rows.exclude(number_hash=None).count(), "forgotten": rows.filter(number_hash=None).count()}


def test_ledger_and_answers_of_a_number_are_emptied_and_another_numbers_are_not(token: ApiToken) -> None:
    for number, key in ((NUMBER, "a"), (NUMBER, None), (OTHER, "b")):
        charge(token, number, key)
    before = list(
        CreditEntry.objects.order_by("pk").values("pk", "amount", "balance_after", "request_id", "created_at")
    )
    assert erasure.forget([NUMBER]) == erasure.Emptied(ledger_entries=2, stored_answers=1)
    assert searches() == {"known": 1, "forgotten": 2}
    assert [bool(answer) for answer in IdempotencyRecord.objects.order_by("pk").values_list("answer", flat=True)] == (
        [False, True]
    )
    after = list(CreditEntry.objects.order_by("pk").values("pk", "amount", "balance_after", "request_id", "created_at"))
    assert after == before


def test_the_audit_agrees_before_and_after(token: ApiToken) -> None:
    charge(token)
    erasure.forget([NUMBER])
    assert audit.audit() == []
    assert ApiToken.objects.get(pk=token.pk).credits == 29


def test_an_emptied_record_does_not_say_whose_number_its_row_was(token: ApiToken) -> None:
    charge(token, key="a")
    charge(token, OTHER, key="b")
    erasure.forget([NUMBER])
    hashes = IdempotencyRecord.objects.order_by("pk").values_list("number_hash", flat=True)
    assert [number_hash is None for number_hash in hashes] == [True, False]


def test_a_claim_under_way_loses_the_numbers_hash_too(token: ApiToken) -> None:
    claim(token, "a")
    assert erasure.forget([NUMBER]).stored_answers == 1
    assert IdempotencyRecord.objects.get().number_hash is None


def test_a_second_time_finds_nothing(token: ApiToken) -> None:
    charge(token, key="a")
    erasure.forget([NUMBER])
    assert erasure.forget([NUMBER]) == erasure.Emptied(0, 0)


def test_a_repeat_after_it_is_looked_up_anew_and_not_charged(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    erasure.forget([NUMBER])
    again = integrator.search(Idempotency_Key="k")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["credits_remaining"] == first.json()["credits_remaining"] == integrator.balance() == 9


def test_many_numbers_are_one_reading_of_each_table_and_short_writes(
    token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "CHUNK_ROWS", 2)
    numbers = [f"49302312500{n}" for n in range(5)]
    for number in numbers:
        charge(token, number)
    with CaptureQueriesContext(connection) as ran:
        assert erasure.forget(numbers).ledger_entries == 5
    statements = [query["sql"].split()[0] for query in ran.captured_queries]
    assert (statements.count("SELECT"), statements.count("UPDATE")) == (2, 3)


def test_searches_are_charged_before_each_of_its_statements(
    transactional_db: None, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no lock: neither while it reads nor between two of its writes."""
    monkeypatch.setattr(erasure, "CHUNK_ROWS", 1)
    for _ in range(3):
        charge(token)
    ran: list[str] = []

    def after_a_search(execute: Any, sql: str, *rest: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(search).result(30)
        ran.append(sql.partition(" ")[0])
        return execute(sql, *rest)

    def search() -> None:
        charge(token, OTHER)
        connection.close()

    with connection.execute_wrapper(after_a_search):
        assert erasure.forget([NUMBER]).ledger_entries == 3
    assert ran == ["SELECT", "UPDATE", "UPDATE", "UPDATE", "SELECT"]
    assert searches() == {"known": 5, "forgotten": 3}
    assert audit.audit() == []


def test_a_record_that_another_number_has_taken_over_keeps_its_answer(
    token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge(token, key="k")
    real = list

    def taken_over_after_the_reading(rows: Any) -> Any:
        keys = real(rows)
        if rows.model is IdempotencyRecord:
            assert keys
            rows.model.objects.update(number_hash=b"x" * 32)
        return keys

    monkeypatch.setattr(erasure, "list", taken_over_after_the_reading, raising=False)
    assert erasure.forget([NUMBER]).stored_answers == 0
    assert IdempotencyRecord.objects.get().answer
