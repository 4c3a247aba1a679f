"""Low-balance notices are written by `send_notices`, once for each crossing of a threshold that the ledger has."""

import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from accounts import audit, credits, customers
from accounts.models import ApiToken
from contrib.alerts import customer_webhooks, low_balance
from contrib.alerts.models import Notice
from contrib.alerts.tests.low_balances import CONTACT, account, check, search
from monitoring import task_runs
from tests.account_fixtures import Clock
from tests.monitoring.concurrency import in_threads
from tests.upstream import Upstream

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def written() -> list[tuple[int | None, int | None]]:
    """Threshold and balance of each notice, after a check."""
    check()
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
    assert written() == [(3, 3)]
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert written() == [(3, 3)]


def test_rolled_back_charge_writes_no_notice(notices_on: None) -> None:
    token = account(4, 3)
    with transaction.atomic():
        search(token)
        transaction.set_rollback(True)
    assert written() == []
    search(token)
    assert written() == [(3, 3)]


def test_notices_of_short_dips_have_their_balances_and_times(notices_on: None, clock: Clock) -> None:
    """The balance is above the threshold again when it is checked."""
    token, times = account(4, 3), []
    for amount in (1, 2):
        clock.now += timedelta(seconds=5)
        times.append(clock.now)
        search(token, amount)
        credits.top_up(token=token, amount=amount + 1, actor="op", reason="paid")
    assert written() == [(3, 3), (3, 3)]
    found = Notice.objects.order_by("pk").values_list("created_at", "due_at", "channel", "has_webhooks")
    assert list(found) == [(at, at, "email", True) for at in times]


@pytest.mark.django_db(transaction=True)
def test_concurrent_charges_write_one_notice(notices_on: None) -> None:
    token = account(24, 12)
    in_threads(4, lambda: search(token, 6))
    assert written() == [(12, 12)]
    assert audit.audit() == []


@pytest.mark.parametrize("first_run", [True, False])
@pytest.mark.django_db(transaction=True)
def test_senders_that_read_the_same_entries_write_once(
    by_webhook: Upstream, notices_on: None, monkeypatch: pytest.MonkeyPatch, first_run: bool
) -> None:
    if not first_run:
        check()
    search(account(4, 3))
    read, both_have_read = low_balance.crossings, threading.Barrier(2)

    def read_together(since: datetime) -> Iterable[Any]:
        found = list(read(since))
        both_have_read.wait(30)
        return found

    monkeypatch.setattr(low_balance, "crossings", read_together)
    in_threads(2, check)
    assert sorted(Notice.objects.values_list("channel", flat=True)) == ["email", "webhook"]


def test_notice_of_the_version_before_gets_its_webhooks(by_webhook: Upstream, notices_on: None) -> None:
    """That version's charge wrote the e-mail's notice, with the time of the entry."""
    token = account(4, 3)
    search(token)
    at = token.entries.get(kind="search").created_at
    Notice.objects.create(token=token, threshold=3, balance=3, created_at=at, due_at=at)
    check()
    check()
    assert sorted(Notice.objects.values_list("channel", flat=True)) == ["email", "webhook"]


def test_notices_of_one_crossing_are_written_together(
    by_webhook: Upstream, notices_on: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = account(4, 3)
    owner = customers.create(name="Harbour Ltd")
    ApiToken.objects.update(customer=owner)
    customer_webhooks.save(customer=owner, url="https://hooks.example.org")
    search(token)
    with monkeypatch.context() as patch:
        patch.setattr("contrib.alerts.customer_notices.write_webhook", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            check()
    assert not Notice.objects.exists()
    check()
    assert sorted(Notice.objects.values_list("channel", flat=True)) == ["email", "webhook", "webhook"]


# --- What each run reads ---------------------------------------------------------------------------------------------


def test_run_reads_on_from_the_last_one(notices_on: None, clock: Clock) -> None:
    check()
    clock.now += timedelta(hours=3)
    search(account(4, 3))
    clock.now += timedelta(hours=3)
    assert written() == [(3, 3)]


def test_entry_that_is_committed_late_is_found(notices_on: None, clock: Clock) -> None:
    token = account(4, 3)
    check()
    clock.now -= low_balance.OVERLAP
    search(token)
    clock.now += low_balance.OVERLAP + timedelta(minutes=1)
    assert written() == [(3, 3)]


def test_clock_that_was_ahead_hides_no_crossing(notices_on: None, clock: Clock) -> None:
    low_balance.write_notices(clock.now + timedelta(hours=5))
    search(account(4, 3))
    assert written() == [(3, 3)]
    assert task_runs.succeeded_at(low_balance.TASK) == clock.now


def test_run_after_a_long_pause_reads_one_day(notices_on: None, clock: Clock) -> None:
    check()
    search(account(4, 3))
    clock.now += DAY
    search(account(2, 1))
    clock.now += DAY
    assert written() == [(1, 1)]


@pytest.mark.parametrize("command", [["send_notices"], ["prune"]])
def test_what_was_crossed_while_off_is_not_noticed_later(settings: Any, clock: Clock, command: list[str]) -> None:
    settings.LOW_BALANCE_NOTICES = True
    check()
    settings.LOW_BALANCE_NOTICES = False
    clock.now += timedelta(minutes=1)
    search(account(4, 3))
    with pytest.raises(CommandError) if command == ["send_notices"] else transaction.atomic():
        call_command(*command)
    clock.now += timedelta(minutes=5)
    settings.LOW_BALANCE_NOTICES = True
    assert written() == []
    search(account(2, 1))
    assert written() == [(1, 1)]


@pytest.mark.parametrize("is_on", [True, False])
def test_upgrade_starts_the_watermark_if_notices_are_on(settings: Any, clock: Clock, is_on: bool) -> None:
    """What new servers charge before the first run of the new `send_notices` is read by it."""
    settings.LOW_BALANCE_NOTICES = is_on
    import_module("monitoring.migrations.0005_low_balance_start").start(apps, None)
    assert task_runs.succeeded_at(low_balance.TASK) == (clock.now if is_on else None)


def test_entries_are_read_by_the_index_on_their_time(notices_on: None, settings: Any) -> None:
    """Without statistics, PostgreSQL would read so small a table as a whole."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
    for settings.ALERT_WEBHOOK_URLS in ([], ["https://hooks.example.org"]):
        assert "creditentry_created" in low_balance.crossings(timezone.now()).explain()
