"""Each change of a balance writes one ledger entry, or neither happens."""

import time
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import Sum
from pytest_django import DjangoAssertNumQueries

from accounts import audit, charging, credits, debit, tokens
from accounts.models import ApiToken, CreditEntry, IdempotencyRecord
from core import db, loop
from core.database_errors import ConnectionLost, NotSent
from tests import awaited, plugin
from tests.api import claim

pytestmark = pytest.mark.django_db
NUMBER = "493023125042"


@pytest.fixture
def token() -> ApiToken:
    return tokens.issue(name="pbx", initial_credits=3, actor="test").token


def charge(token: ApiToken, **options: Any) -> charging.ChargedAnswer:
    return awaited.charge(**{"token": token, "request_id": "r", "number": NUMBER, "answer": {"x": 1}, **options})


def top_up(token: ApiToken, amount: int = 10, reference: str = "") -> CreditEntry:
    return credits.top_up(token=token, amount=amount, actor="op", reason="invoice", reference=reference)[0]


def balance(token: ApiToken) -> int:
    return ApiToken.objects.get(pk=token.pk).credits


def ledger(token: ApiToken) -> list[int]:
    return list(CreditEntry.objects.filter(token=token).order_by("pk").values_list("amount", flat=True))


def test_charge_takes_one_credit_and_writes_one_entry(token: ApiToken) -> None:
    assert charge(token, request_id="abc").body == {"x": 1, "credits_remaining": 2}
    entry = CreditEntry.objects.get(kind="search")
    assert (entry.amount, entry.balance_after, entry.request_id) == (-1, 2, "abc")
    row = ApiToken.objects.get(pk=token.pk)
    assert (row.credits, row.last_charged_at) == (2, entry.created_at)


def test_lost_debit_is_looked_for_until_the_search_ends(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_at = []

    async def lose(_: debit.Debit) -> debit.DebitResult:
        raise ConnectionLost

    async def fail(_: debit.Debit) -> debit.DebitResult:
        asked_at.append(time.monotonic())
        raise NotSent

    monkeypatch.setattr(debit.Debit, "execute", lose)
    monkeypatch.setattr(debit.Debit, "find", fail)
    held = claim(token, "k")
    end = time.monotonic() + 0.3

    async def search() -> None:
        db.deadline.set(end)
        await charging.charge(token=token, request_id="r", number=NUMBER, answer={}, claim=held)

    with pytest.raises(ConnectionLost):
        loop.run(search())
    assert len(asked_at) > 1
    assert max(asked_at) < end


def test_debit_writes_what_the_orm_would(token: ApiToken) -> None:
    charge(token, request_id="abc")
    written = CreditEntry.objects.get(kind="search")
    by_orm = CreditEntry(
        token=token,
        amount=-1,
        balance_after=2,
        kind=CreditEntry.Kind.SEARCH,
        request_id="abc",
        number_hash=written.number_hash,
        created_at=written.created_at,
    )
    fields = [field.attname for field in CreditEntry._meta.concrete_fields if not field.primary_key]
    assert {name: getattr(written, name) for name in fields} == {name: getattr(by_orm, name) for name in fields}


def test_refused_charge_leaves_balance_and_ledger_unchanged(token: ApiToken) -> None:
    for _ in range(3):
        charge(token)
    with pytest.raises(charging.NoCreditsLeft):
        charge(token)
    assert balance(token) == 0
    assert ledger(token) == [3, -1, -1, -1]


def test_refused_charge_leaves_no_idempotency_record(token: ApiToken) -> None:
    empty = tokens.issue(name="empty", initial_credits=0, actor="test").token
    with pytest.raises(charging.NoCreditsLeft):
        charge(empty, claim=claim(empty, "k"))
    assert not IdempotencyRecord.objects.exists()
    top_up(empty, 1)
    assert not charge(empty, claim=claim(empty, "k")).replayed


def test_repeated_reference_is_the_same_top_up(token: ApiToken) -> None:
    assert top_up(token, reference="inv-1").pk == top_up(token, reference="inv-1").pk
    assert ledger(token) == [3, 10]


def test_repeated_reference_with_another_amount_conflicts(token: ApiToken) -> None:
    top_up(token, reference="inv-1")
    with pytest.raises(credits.ChangeRefused, match="This reference was used"):
        top_up(token, 11, reference="inv-1")
    with pytest.raises(credits.ChangeRefused, match="This reference was used"):
        credits.adjust(token=token, amount=10, actor="op", reason="x", reference="inv-1")
    assert ledger(token) == [3, 10]


def test_references_are_unique_per_token_and_optional(token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=0, actor="test").token
    top_up(token, reference="inv-1")
    top_up(other, reference="inv-1")
    top_up(token)
    top_up(token)
    assert ledger(token) == [3, 10, 10, 10]
    assert balance(other) == 10


def test_database_refuses_a_repeated_reference(token: ApiToken) -> None:
    top_up(token, reference="inv-1")
    with pytest.raises(IntegrityError), transaction.atomic():
        credits.change_balance(
            token=token, amount=10, kind=CreditEntry.Kind.TOP_UP, actor="", reason="x", reference="inv-1"
        )
    assert balance(token) == 13


@pytest.mark.parametrize("amount", [0, -1, 10**9 + 1])
def test_top_up_out_of_range_changes_nothing(token: ApiToken, amount: int) -> None:
    with pytest.raises(credits.ChangeRefused):
        top_up(token, amount)
    assert ledger(token) == [3]


@pytest.mark.parametrize("amount", [-4, 0])
def test_adjustment_never_goes_below_zero(token: ApiToken, amount: int) -> None:
    with pytest.raises(credits.ChangeRefused):
        credits.adjust(token=token, amount=amount, actor="op", reason="x")
    assert balance(token) == 3
    assert credits.adjust(token=token, amount=-3, actor="op", reason="x")[0].balance_after == 0


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201])
def test_change_without_a_reason_changes_nothing(token: ApiToken, reason: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        credits.top_up(token=token, amount=1, actor="op", reason=reason)
    assert ledger(token) == [3]


def test_database_refuses_a_negative_balance(token: ApiToken) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        ApiToken.objects.filter(pk=token.pk).update(credits=-1)


def test_ledger_refuses_a_deletion(token: ApiToken) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        CreditEntry.objects.all().delete()
    assert ledger(token) == [3]


@pytest.mark.skipif(plugin.production(), reason="PostgreSQL has no REPLACE")
def test_ledger_refuses_insert_or_replace(token: ApiToken) -> None:
    columns = "id, token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at"
    changed = columns.replace("amount", "99")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT OR REPLACE INTO accounts_creditentry ({columns}) SELECT {changed} FROM accounts_creditentry"
        )
    assert ledger(token) == [3]


def ledger_update(assignments: str, *parameters: Any) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE accounts_creditentry SET {assignments} WHERE kind = 'search'", parameters)


def test_number_hash_can_be_erased_but_never_restored(token: ApiToken) -> None:
    charge(token)
    before = CreditEntry.objects.filter(kind="search").values().get()
    ledger_update("number_hash = NULL")
    assert CreditEntry.objects.filter(kind="search").values().get() == {**before, "number_hash": None}
    for again in (None, b"x" * 32):
        with pytest.raises(DatabaseError, match="append-only"):
            ledger_update("number_hash = %s", again)
    assert CreditEntry.objects.filter(kind="search").values().get()["number_hash"] is None


#: A different value for each column. A new column needs one here, and must be protected by the triggers.
CHANGED_VALUES = {
    "id": "id + 1000",
    "token_id": "token_id + 1",
    "amount": "amount - 1",
    "balance_after": "balance_after + 1",
    "kind": "'refund'",
    "actor": "'x'",
    "reason": "'x'",
    "reference": "'x'",
    "request_id": "'x'",
    "refunds_id": "id",
    "other_token_id": "token_id",
    "created_at": "'2000-01-01 00:00:00+00:00'",
    "price": "1",
    "number_hash": "request_id" if connection.vendor == "sqlite" else "'x'::bytea",
}


COLUMNS = [field.column for field in CreditEntry._meta.concrete_fields]


@pytest.mark.parametrize(
    ("column", "beside"),
    [
        *((column, "") for column in COLUMNS),
        *((column, "number_hash = NULL, ") for column in COLUMNS if column != "number_hash"),
    ],
)
def test_no_other_ledger_column_can_change(token: ApiToken, column: str, beside: str) -> None:
    charge(token)
    before = list(CreditEntry.objects.order_by("pk").values())
    with pytest.raises(DatabaseError, match="append-only"):
        ledger_update(f"{beside}{column} = {CHANGED_VALUES[column]}")
    assert list(CreditEntry.objects.order_by("pk").values()) == before


def test_revoked_token_accepts_corrections_but_no_top_up(token: ApiToken) -> None:
    charge(token)
    earlier = top_up(token, 5, reference="invoice 1")
    tokens.revoke(token=token)
    with pytest.raises(credits.ChangeRefused, match="revoked"):
        top_up(token, 5)
    assert top_up(token, 5, reference="invoice 1") == earlier
    with pytest.raises(credits.ChangeRefused, match="Enter at most"):
        top_up(token, credits.MAX_AMOUNT + 1)
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    credits.adjust(token=token, amount=-8, actor="op", reason="settled")
    assert (ApiToken.objects.get().credits, audit.audit()) == (0, [])


def test_token_with_a_ledger_cannot_be_deleted(token: ApiToken) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        token.delete()


def test_audit_is_one_statement(token: ApiToken, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    charge(token)
    with django_assert_num_queries(1):
        assert audit.audit() == []
    assert CreditEntry.objects.aggregate(Sum("amount"))["amount__sum"] == 2
