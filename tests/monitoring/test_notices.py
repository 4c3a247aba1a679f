"""Low-balance notices are written with the change that crosses the threshold, once for each crossing."""

import pytest
from django.db import transaction
from django.utils import timezone

from accounts import audit, credits
from monitoring.models import Notice
from tests import awaited
from tests.accounts.admin.pages import NUMBER
from tests.accounts.low_balance import CONTACT, account, search
from tests.api import claim
from tests.monitoring.concurrency import in_threads

pytestmark = pytest.mark.django_db


def written() -> list[tuple[int | None, int | None]]:
    """Threshold and balance of each notice."""
    return list(Notice.objects.order_by("pk").values_list("threshold", "balance"))


def test_notices_are_off_by_default() -> None:
    token = account(3, 2)
    search(token, 3)
    credits.top_up(token=token, amount=9, actor="op", reason="paid")
    credits.adjust(token=token, amount=-9, actor="op", reason="mistake")
    assert written() == []


def test_charge_that_crosses_the_threshold_writes_one_notice(notices_on: None) -> None:
    token = account(5, 3)
    search(token)
    assert written() == []
    search(token)
    assert written() == [(3, 3)]
    search(token, 3)
    assert written() == [(3, 3)]


@pytest.mark.parametrize(("threshold", "contact"), [(None, CONTACT), (3, ""), (9, CONTACT)])
def test_nothing_is_written_without_a_crossing_and_a_contact(
    notices_on: None, threshold: int | None, contact: str
) -> None:
    token = account(5, threshold, contact)
    search(token, 5)
    assert written() == []


def test_threshold_of_zero_is_crossed_by_the_last_credit(notices_on: None) -> None:
    search(account(1, 0))
    assert written() == [(0, 0)]


def test_only_a_new_crossing_writes_another_notice(notices_on: None) -> None:
    token = account(4, 3)
    search(token, 2)
    credits.top_up(token=token, amount=1, actor="op", reason="up to the threshold only")
    search(token)
    assert written() == [(3, 3)]
    credits.top_up(token=token, amount=3, actor="op", reason="above it")
    search(token, 3)
    assert written() == [(3, 3), (3, 3)]


def test_adjustment_across_the_threshold_writes_one_notice(notices_on: None) -> None:
    token = account(10, 5)
    credits.adjust(token=token, amount=-8, actor="op", reason="mistake")
    credits.adjust(token=token, amount=-1, actor="op", reason="mistake")
    assert written() == [(5, 2)]


def test_refund_writes_no_notice(notices_on: None) -> None:
    token = account(4, 3)
    search(token)
    Notice.objects.all().delete()
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert written() == []


@pytest.mark.parametrize("idempotency_key", [None, "k"])
def test_rolled_back_charge_writes_no_notice(notices_on: None, idempotency_key: str | None) -> None:
    token = account(4, 3)
    with transaction.atomic():
        claimed = claim(token, idempotency_key) if idempotency_key else None
        awaited.charge(token=token, request_id="r", number=NUMBER, answer={}, claim=claimed)
        assert written() == [(3, 3)]
        transaction.set_rollback(True)
    assert written() == []
    search(token)
    assert written() == [(3, 3)]


def test_charge_and_adjustment_write_the_same_notice(notices_on: None) -> None:
    search(account(4, 3))
    credits.adjust(token=account(4, 3), amount=-1, actor="op", reason="mistake")
    by_sql, by_orm = Notice.objects.order_by("pk")
    same = [field.attname for field in Notice._meta.concrete_fields]
    for name in ("id", "token_id", "created_at", "due_at"):
        same.remove(name)
    assert {name: getattr(by_sql, name) for name in same} == {name: getattr(by_orm, name) for name in same}
    for notice in (by_sql, by_orm):
        assert notice.due_at == notice.created_at
        assert notice.due_at <= timezone.now()
    assert by_sql.token is not None
    assert by_sql.created_at == by_sql.token.entries.get(kind="search").created_at


@pytest.mark.django_db(transaction=True)
def test_concurrent_charges_write_one_notice(notices_on: None) -> None:
    token = account(24, 12)
    in_threads(4, lambda: search(token, 6))
    assert written() == [(12, 12)]
    assert audit.audit() == []
