"""A search that was answered with 500 while its charge was unknown is refunded once, if it was charged."""

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from accounts import audit, charging, credits, debit, tokens, unknown_charges
from accounts.models import ApiToken, CreditEntry, UnknownCharge
from accounts.unknown_charges import ChargeSettler, LostDebit
from core import loop
from core.retention import KEPT_DAYS
from tests import awaited
from tests.accounts.admin.pages import NUMBER, amounts, balance, issue_token

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def remembered(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChargeSettler:
    """What this process remembers; it is written and settled by `flush` only."""
    settings.DATA_DIR = tmp_path
    process = ChargeSettler(flush_interval_s=None)
    monkeypatch.setattr(unknown_charges, "settler", process)
    return process


def charge(token: ApiToken, request_id: str = "r") -> LostDebit:
    awaited.charge(token=token, request_id=request_id, number=NUMBER, answer={})
    return lost(token.entries.filter(kind="search").latest("pk"))


def lost(entry: CreditEntry) -> LostDebit:
    return LostDebit(entry.token_id, entry.created_at, entry.request_id)


def not_charged(token: ApiToken) -> LostDebit:
    return LostDebit(token.pk, timezone.now(), "never")


def files(directory: Path) -> list[Path]:
    return list((directory / "unknown-charges").iterdir())


def test_a_debit_that_stands_is_refunded(token: ApiToken, remembered: ChargeSettler) -> None:
    charge(token)
    remembered.add(charge(token))
    remembered.flush()
    refund = token.entries.get(kind="refund")
    assert (refund.amount, refund.reason, refund.actor) == (1, "answer lost", "")
    assert refund.refunds == token.entries.filter(kind="search").latest("pk")
    assert (balance(token), audit.audit(), unknown_charges.count()) == (29, [], {"refunded": 1})
    remembered.flush()
    assert amounts(token, "refund") == [1]


def test_a_debit_that_was_not_made_is_not_refunded(token: ApiToken, remembered: ChargeSettler) -> None:
    charge(token, "never")
    remembered.add(not_charged(token))
    remembered.flush()
    assert (balance(token), unknown_charges.count()) == (29, {"not charged": 1})


def test_an_operators_refund_is_not_repeated(token: ApiToken, remembered: ChargeSettler) -> None:
    remembered.add(charge(token))
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="500")
    remembered.flush()
    assert (balance(token), amounts(token, "refund"), unknown_charges.count()) == (30, [1], {"refunded": 1})


def test_an_erased_and_a_revoked_one_are_refunded(token: ApiToken, remembered: ChargeSettler) -> None:
    remembered.add(charge(token))
    CreditEntry.objects.filter(kind="search").update(number_hash=None)
    tokens.revoke(token=token)
    remembered.flush()
    assert balance(token) == 30


def test_a_settled_debit_that_arrives_late_changes_nothing(token: ApiToken, remembered: ChargeSettler) -> None:
    late = debit.Debit(token.pk, token.charge_epoch, "never", b"", timezone.now(), {}, None)
    remembered.add(LostDebit(token.pk, late.created_at, late.request_id))
    remembered.flush()
    assert loop.run(late.execute()).entry_id is None
    assert (balance(token), audit.audit()) == (30, [])


def test_a_search_in_progress_is_charged_after_a_settlement(token: ApiToken, remembered: ChargeSettler) -> None:
    for _ in range(2):  # `token` was read before the settlement
        remembered.add(not_charged(token))
        remembered.flush()
        charge(token)
    assert (balance(token), audit.audit()) == (28, [])
    ApiToken.objects.update(credits=0)
    with pytest.raises(charging.NoCreditsLeft):
        charge(token)


def test_a_killed_process_leaves_a_file(token: ApiToken, remembered: ChargeSettler, tmp_path: Path) -> None:
    remembered.add(charge(token, "a.b_c-D"))
    (tmp_path / "unknown-charges" / "of an operator").touch()
    assert unknown_charges.count() == {}
    replacement = ChargeSettler(flush_interval_s=None)
    replacement.flush()
    assert (balance(token), amounts(token, "refund")) == (30, [1])
    assert [file.name for file in files(tmp_path)] == ["of an operator"]
    remembered.flush()
    assert amounts(token, "refund") == [1]


def test_without_a_file_it_is_kept_in_memory(
    token: ApiToken, remembered: ChargeSettler, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DATA_DIR = tmp_path / "file"
    settings.DATA_DIR.touch()
    remembered.add(charge(token))
    assert "kept in memory only (NotADirectoryError)" in caplog.text
    remembered.flush()
    assert balance(token) == 30


def test_a_failed_settlement_is_repeated(
    token: ApiToken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[Callable[[int], bool]] = [lambda _: 1 // 0 > 0, lambda _: False, unknown_charges._settle]
    monkeypatch.setattr(unknown_charges, "_settle", lambda pk: results.pop(0)(pk))
    process = ChargeSettler(flush_interval_s=None)
    process.add(charge(token))
    for _ in range(2):
        process.flush()
        assert unknown_charges.count() == {"unknown": 1}
        assert len(files(tmp_path)) == 1
    process.flush()
    assert (balance(token), files(tmp_path)) == (30, [])
    assert [record.levelno for record in caplog.records if record.name == "accounts.unknown_charges"] == [
        logging.WARNING
    ]


def test_a_refused_refund_delays_no_other(
    token: ApiToken, remembered: ChargeSettler, caplog: pytest.LogCaptureFixture
) -> None:
    other = issue_token("other", 30)
    remembered.add(charge(token))
    ApiToken.objects.filter(pk=token.pk).update(credits=credits.MAX_BALANCE)
    remembered.flush()
    remembered.add(charge(other))
    remembered.flush()
    assert (balance(other), unknown_charges.count()) == (30, {"refunded": 1, "unknown": 1})
    refused = UnknownCharge.objects.get(outcome="unknown")
    assert caplog.text.count(f"unknown charge {refused.pk} cannot be refunded yet: The balance must stay") == 1
    ApiToken.objects.filter(pk=token.pk).update(credits=29)
    remembered.flush()
    assert (balance(token), unknown_charges.count()) == (30, {"refunded": 2})


@pytest.mark.django_db(transaction=True)
def test_many_processes_and_operators_refund_each_once(token: ApiToken, remembered: ChargeSettler) -> None:
    debits = [charge(token) for _ in range(20)]
    barrier = threading.Barrier(6)

    def settle(_: int) -> None:
        process = ChargeSettler(flush_interval_s=None)
        for each in debits:
            process.add(each)
        barrier.wait(10)
        try:
            while unknown_charges.count() != {"refunded": 20}:
                process.flush()
        finally:
            connections.close_all()

    def refund(_: int) -> int:
        barrier.wait(10)
        refunded = 0
        try:
            for entry in CreditEntry.objects.filter(kind="search"):
                try:
                    credits.refund(entry=entry, actor="op", reason="500")
                    refunded += 1
                except credits.NotRefundable:
                    pass
        finally:
            connections.close_all()
        return refunded

    with ThreadPoolExecutor(6) as pool:
        settling, refunding = [pool.submit(settle, n) for n in range(4)], [pool.submit(refund, n) for n in range(2)]
        for done in settling:
            done.result(60)
        by_operators = sum(done.result(60) for done in refunding)
    assert (balance(token), amounts(token, "refund"), audit.audit()) == (30, [1] * 20, [])
    assert CreditEntry.objects.filter(kind="refund", actor="").count() == 20 - by_operators


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite locks the database, not rows")
@pytest.mark.django_db(transaction=True)
def test_settlement_waits_neither_for_another_nor_forever(token: ApiToken, remembered: ChargeSettler) -> None:
    """While no standby confirms commits, one connection waits for that, whichever process it belongs to."""
    remembered.add(charge(token))
    locked, end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            UnknownCharge.objects.create(**lost(token.entries.get(kind="search"))._asdict())
        with transaction.atomic():
            list(UnknownCharge.objects.select_for_update())
            locked.set()
            end.wait(30)
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        assert locked.wait(30)
        try:
            remembered.flush()
            assert (unknown_charges.count(), balance(token)) == ({"unknown": 1}, 29)
        finally:
            end.set()
        held.result(30)
    remembered.flush()
    assert balance(token) == 30


def test_audit_counts_them(token: ApiToken, remembered: ChargeSettler) -> None:
    def audited(*arguments: str) -> str:
        out = StringIO()
        call_command("audit_credits", *arguments, stdout=out)
        return out.getvalue()

    assert json.loads(audited("--json")) == {"disagreements": []}
    remembered.add(charge(token))
    remembered.add(not_charged(token))
    remembered.flush()
    UnknownCharge.objects.create(token=token, charged_at=datetime(2026, 1, 1, tzinfo=timezone.now().tzinfo))
    counts = {"unknown": 1, "refunded": 1, "not_charged": 1}
    assert json.loads(audited("--json")) == {"disagreements": [], "unknown_charges": counts}
    assert audited().splitlines()[1:] == [
        "Searches answered with 500 while their charge was unknown: 1 still unknown, 1 refunded, 1 not charged."
    ]
    UnknownCharge.objects.exclude(outcome="unknown").update(
        settled_at=datetime(2026, 1, 1, tzinfo=timezone.now().tzinfo)
    )
    assert json.loads(audited("--json", "--since", "2026-01-02"))["unknown_charges"] == {
        **dict.fromkeys(counts, 0),
        "unknown": 1,
    }


def test_prune_settles_and_deletes_old_ones(token: ApiToken, remembered: ChargeSettler) -> None:
    remembered.add(charge(token))
    call_command("prune", "--json", stdout=StringIO())
    assert (balance(token), unknown_charges.count()) == (30, {"refunded": 1})
    UnknownCharge.objects.update(settled_at=timezone.now() - timedelta(days=KEPT_DAYS, hours=1))
    UnknownCharge.objects.create(token=token, charged_at=timezone.now() - timedelta(days=2 * KEPT_DAYS))
    out = StringIO()
    call_command("prune", "--json", stdout=out)
    assert json.loads(out.getvalue())["unknown_charges"] == 1
    assert unknown_charges.count() == {"not charged": 1}
