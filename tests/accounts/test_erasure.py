"""A number is erased from the ledger and the stored answers, and nothing else is."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts import audit, erasure
from accounts.models import ApiToken, CreditEntry, IdempotencyRecord
from core import retention
from tests import awaited
from tests.api import NUMBER, Integrator, claim

OTHER = "493023125043"


def charge(token: ApiToken, number: str = NUMBER, key: str | None = None) -> Any:
    claimed = claim(token, key, number) if key else None
    return awaited.charge(token=token, request_id="r", number=number, answer={"name": "x"}, claim=claimed).body


def searches() -> dict[str, int]:
    """How many ledger entries tell for which number they are."""
    rows = CreditEntry.objects.filter(kind="search")
    return {"known": rows.exclude(number_hash=None).count(), "erased": rows.filter(number_hash=None).count()}


def test_only_the_number_is_erased_from_ledger_and_answers(token: ApiToken) -> None:
    for number, key in ((NUMBER, "a"), (NUMBER, None), (OTHER, "b")):
        charge(token, number, key)
    before = list(
        CreditEntry.objects.order_by("pk").values("pk", "amount", "balance_after", "request_id", "created_at")
    )
    assert erasure.erase([NUMBER]) == erasure.Erased(ledger_entries=2, stored_answers=1)
    assert searches() == {"known": 1, "erased": 2}
    assert [bool(answer) for answer in IdempotencyRecord.objects.order_by("pk").values_list("answer", flat=True)] == (
        [False, True]
    )
    after = list(CreditEntry.objects.order_by("pk").values("pk", "amount", "balance_after", "request_id", "created_at"))
    assert after == before


def test_audit_agrees_after_erasure(token: ApiToken) -> None:
    charge(token)
    erasure.erase([NUMBER])
    assert audit.audit() == []
    assert ApiToken.objects.get(pk=token.pk).credits == 29


def test_erased_record_does_not_tell_its_number(token: ApiToken) -> None:
    charge(token, key="a")
    charge(token, OTHER, key="b")
    erasure.erase([NUMBER])
    hashes = IdempotencyRecord.objects.order_by("pk").values_list("number_hash", flat=True)
    assert [number_hash is None for number_hash in hashes] == [True, False]


def test_claim_in_progress_loses_the_number_hash(token: ApiToken) -> None:
    claim(token, "a")
    assert erasure.erase([NUMBER]).stored_answers == 1
    assert IdempotencyRecord.objects.get().number_hash is None


def test_erasing_again_finds_nothing(token: ApiToken) -> None:
    charge(token, key="a")
    erasure.erase([NUMBER])
    assert erasure.erase([NUMBER]) == erasure.Erased(0, 0)


def test_retry_after_erasure_searches_again_uncharged(integrator: Integrator) -> None:
    first = integrator.search(Idempotency_Key="k")
    erasure.erase([NUMBER])
    again = integrator.search(Idempotency_Key="k")
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["credits_remaining"] == first.json()["credits_remaining"] == integrator.balance() == 9


def test_many_numbers_take_one_scan_and_batched_updates(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "BATCH_ROWS", 2)
    numbers = [f"49302312500{n}" for n in range(5)]
    for number in numbers:
        charge(token, number)
    with CaptureQueriesContext(connection) as ran:
        assert erasure.erase(numbers).ledger_entries == 5
    statements = [query["sql"].split()[0] for query in ran.captured_queries]
    assert (statements.count("SELECT"), statements.count("UPDATE")) == (2, 3)


def test_searches_are_charged_between_erasure_statements(
    transactional_db: None, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no lock, neither while it scans nor between two batches."""
    monkeypatch.setattr(erasure, "BATCH_ROWS", 1)
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
        assert erasure.erase([NUMBER]).ledger_entries == 3
    assert ran == ["SELECT", "UPDATE", "UPDATE", "UPDATE", "SELECT"]
    assert searches() == {"known": 5, "erased": 3}
    assert audit.audit() == []


def test_record_reused_for_another_number_keeps_its_answer(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    charge(token, key="k")
    real = list

    def reused_after_the_scan(rows: Any) -> Any:
        keys = real(rows)
        if rows.model is IdempotencyRecord:
            assert keys
            rows.model.objects.update(number_hash=b"x" * 32)
        return keys

    monkeypatch.setattr(retention, "list", reused_after_the_scan, raising=False)
    assert erasure.erase([NUMBER]).stored_answers == 0
    assert IdempotencyRecord.objects.get().answer
