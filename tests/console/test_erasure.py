"""A forgotten number is nowhere any more, and everything else is as it was."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, tokens
from accounts.models import ApiToken, CreditEntry, IdempotencyRecord
from console import erasure
from core import db as core_db
from core import history, retention, write_buffer
from phonebook.imports.staging import LockNotAvailable
from phonebook.models import ComplaintDay, ComplaintSubject, Contact, NumberRule
from phonebook.suppression import SuppressedNumbers
from tests import awaited, connectors, plugin
from tests.api import NUMBER, Integrator, claim
from tests.awaited import search
from tests.phonebook.rows import cache_version_of

OTHER = "493023125043"
COUNTED = (
    *("contacts", "complaint_days", "rules", "ledger_entries", "stored_answers"),
    *("admin_entries", "subjects", "imports"),
    *plugin.of_addons("ERASED"),
)
NOTHING = {**dict.fromkeys(COUNTED, 0), "overwritten": None}
T = "tests.connectors."


def known(number: str) -> None:
    """Everything that there can be about a number."""
    Contact.objects.create(number=int(number), name="Alice Example", location="Berlin")
    NumberRule.objects.create(number=int(number), name="Alice Example", note="asked us")
    for day in (1, 2):
        ComplaintDay.objects.create(number=int(number), source="desk", day=date(2026, 1, day), total=1)


def rows() -> list[int]:
    return [model._default_manager.count() for model in (Contact, NumberRule, ComplaintDay)]


def searches() -> dict[str, int]:
    """How many ledger entries tell for which number they are."""
    rows = CreditEntry.objects.filter(kind="search")
    return {"known": rows.exclude(number_hash=None).count(), "erased": rows.filter(number_hash=None).count()}


def test_erase_deletes_everything_about_that_number_only(integrator: Integrator) -> None:
    for number in (NUMBER, OTHER):
        known(number)
        integrator.search(number, Idempotency_Key=number)
    write_buffer.process_buffer.flush()
    kept = ("pk", "amount", "balance_after", "request_id", "created_at")
    ledger = list(CreditEntry.objects.order_by("pk").values(*kept))
    assert erasure.erase([NUMBER]) | plugin.of_addons("ERASED") == {
        **NOTHING,
        "contacts": 1,
        "complaint_days": 2,
        "rules": 1,
        "ledger_entries": 1,
        "stored_answers": 1,
    }
    assert rows() == [1, 1, 2]
    assert searches() == {"known": 1, "erased": 1}
    records = IdempotencyRecord.objects.order_by("pk").values_list("answer", "number_hash")
    assert [(bool(answer), number_hash is None) for answer, number_hash in records] == [(False, True), (True, False)]
    assert list(CreditEntry.objects.order_by("pk").values(*kept)) == ledger
    assert audit.audit() == []


def test_a_repeated_erase_deletes_nothing_and_bumps_again(db: None) -> None:
    known(NUMBER)
    erasure.erase([NUMBER])
    before = cache_version_of(NUMBER)
    assert erasure.erase([NUMBER, NUMBER]) == NOTHING
    assert cache_version_of(NUMBER) != before


def test_erase_invalidates_cached_vendor_answers(db: None, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = T + "RemoteKnows", T + "KnowsNothing"
    search(NUMBER)
    erasure.erase([NUMBER])
    search(NUMBER)
    assert connectors.RemoteKnows.calls == [NUMBER, NUMBER]


@pytest.mark.parametrize("block", [True, False])
def test_erase_without_block_does_not_unsuppress(db: None, block: bool) -> None:
    erasure.erase([NUMBER], block=block)
    assert (NUMBER in SuppressedNumbers()) is block
    erasure.erase([NUMBER])
    assert (NUMBER in SuppressedNumbers()) is block


def test_erase_removes_the_number_from_old_history_entries(admin_client: Client) -> None:
    """Those of earlier versions, which had numbers in full."""
    user = User.objects.get()
    models = (Contact, NumberRule, ComplaintDay)
    for number in (NUMBER, OTHER):
        for model in models:
            name = f"{number} 2026-01-02" if model is ComplaintDay else number
            history.record(action=history.Action.ADDITION, model=model, name=name, message="", user=user)
    LogEntry.objects.update(object_id="7")
    changed = f"Changed {NUMBER} and {OTHER}, not 1{NUMBER}."
    history.record(action=history.Action.CHANGE, model=Contact, name=NUMBER, message=changed, user=user)
    entries = LogEntry.objects.order_by("pk")
    before = list(entries.values_list("user_id", "action_flag", "action_time", "content_type_id"))
    assert erasure.erase([NUMBER])["admin_entries"] == 4
    assert list(entries.values_list("user_id", "action_flag", "action_time", "content_type_id")) == before
    others = entries.exclude(object_id=None)
    assert sorted(others.values_list("object_repr", flat=True)) == [OTHER, OTHER, f"{OTHER} 2026-01-02"]
    forgotten = entries.filter(object_id=None)
    assert set(forgotten.values_list("object_repr", flat=True)) == {"(erased)", "(erased) 2026-01-02"}
    assert entries.last().change_message == f"Changed (erased) and {OTHER}, not 1{NUMBER}."  # type: ignore[union-attr]
    assert admin_client.get("/admin/").status_code == 200  # the page of recent actions
    assert erasure.erase([NUMBER]) == NOTHING


def test_an_interrupted_erase_completes_when_repeated(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    known(NUMBER)
    integrator.search()
    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_erase_from_ledger", lambda numbers: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            erasure.erase([NUMBER])
    assert erasure.erase([NUMBER])["ledger_entries"] == 1
    assert rows() == [0, 0, 0]


def test_many_numbers_take_one_scan_and_batched_updates(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "BATCH_ROWS", 2)
    numbers = [f"49302312500{n}" for n in range(5)]
    for number in numbers:
        awaited.charge(token=token, request_id="r", number=number, answer={})
    with CaptureQueriesContext(connection) as ran:
        assert erasure.erase(numbers)["ledger_entries"] == 5
    statements = [query["sql"].split()[0] for query in ran.captured_queries if "accounts_" in query["sql"]]
    assert statements == ["SELECT", *["UPDATE"] * 3, "SELECT"]


def test_searches_are_charged_between_erasure_statements(
    transactional_db: None, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no lock, neither while it scans nor between two batches."""
    monkeypatch.setattr(erasure, "BATCH_ROWS", 1)
    for _ in range(3):
        awaited.charge(token=token, request_id="r", number=NUMBER, answer={})
    ran: list[str] = []

    def after_a_search(execute: Any, sql: str, *rest: Any) -> Any:
        if "accounts_" in sql:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(charge).result(30)
            ran.append(sql.partition(" ")[0])
        return execute(sql, *rest)

    def charge() -> None:
        awaited.charge(token=token, request_id="r", number=OTHER, answer={})
        connection.close()

    with connection.execute_wrapper(after_a_search):
        assert erasure.erase([NUMBER])["ledger_entries"] == 3
    assert ran == ["SELECT", "UPDATE", "UPDATE", "UPDATE", "SELECT"]
    assert searches() == {"known": 5, "erased": 3}
    assert audit.audit() == []


def test_record_reused_for_another_number_keeps_its_answer(token: ApiToken, monkeypatch: pytest.MonkeyPatch) -> None:
    awaited.charge(token=token, request_id="r", number=NUMBER, answer={"name": "x"}, claim=claim(token, "k"))
    real = list

    def reused_after_the_scan(rows: Any) -> Any:
        keys = real(rows)
        if rows.model is IdempotencyRecord:
            assert keys
            rows.model.objects.update(number_hash=b"x" * 32)
        return keys

    monkeypatch.setattr(retention, "list", reused_after_the_scan, raising=False)
    assert erasure.erase([NUMBER])["stored_answers"] == 0
    assert IdempotencyRecord.objects.get().answer


@pytest.fixture
def sqlite_keeps_deleted(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SQLite as some systems build it: what is deleted stays in the file, unless a connection says otherwise."""
    connect = sqlite3.connect

    def connect_as_built(*args: Any, **options: Any) -> sqlite3.Connection:
        opened = connect(*args, **options)
        opened.execute("PRAGMA secure_delete = OFF")
        return opened

    monkeypatch.setattr("django.db.backends.sqlite3.base.Database.connect", connect_as_built)
    connection.close()
    yield
    connection.close()


def remaining(*texts: str) -> list[str]:
    """Which of `texts` stand in SQLite's files."""
    files = [Path(f"{connection.settings_dict['NAME']}{end}") for end in ("", "-wal")]
    content = b"".join(file.read_bytes() for file in files)
    return [text for text in texts if text.encode() in content]


@pytest.mark.skipif(plugin.production(), reason="PostgreSQL has its VACUUM")
@pytest.mark.usefixtures("sqlite_keeps_deleted")
def test_on_sqlite_erase_leaves_nothing_in_the_file() -> None:
    texts = ("A Most Memorable Name", "a most memorable note")
    Contact.objects.create(number=int(NUMBER), name=texts[0], location="Berlin")
    NumberRule.objects.create(number=int(NUMBER), note=texts[1])
    assert remaining(*texts) == [*texts]
    assert erasure.erase([NUMBER])["overwritten"]
    assert remaining(*texts) == []


@pytest.mark.skipif(plugin.production(), reason="PostgreSQL has its VACUUM")
@pytest.mark.usefixtures("sqlite_keeps_deleted")
def test_on_sqlite_forget_leaves_no_pruned_row_in_the_file() -> None:
    token = tokens.issue(name="pruned", initial_credits=0, actor="test").token
    for text, created_at in (("a pruned answer", "2000-01-01T00:00:00Z"), ("a kept answer", timezone.now())):
        IdempotencyRecord.objects.create(
            token=token, key_hash=text.encode(), number_hash=b"", answer=text, created_at=created_at
        )
    call_command("prune", stdout=StringIO())
    assert erasure.erase([NUMBER])["overwritten"]
    assert remaining("a pruned answer", "a kept answer") == ["a kept answer"]


def test_erase_deletes_only_unshared_complaint_subjects(db: None) -> None:
    known(NUMBER)
    known(OTHER)
    own, shared = (ComplaintSubject.objects.create(text=text) for text in (f"Alice {NUMBER} calls at night", "Other"))
    ComplaintDay.objects.filter(number=int(NUMBER), day=date(2026, 1, 1)).update(subject=own)
    ComplaintDay.objects.exclude(number=int(NUMBER), day=date(2026, 1, 1)).update(subject=shared)
    assert erasure.erase([NUMBER])["subjects"] == 1
    assert ComplaintSubject.objects.get() == shared


def test_repeat_leaves_no_subject_of_an_interrupted_erase(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import may take the lock between the two."""
    known(NUMBER)
    ComplaintDay.objects.update(subject=ComplaintSubject.objects.create(text=f"Alice {NUMBER} calls at night"))

    def locked(*, wait: bool) -> int:
        raise LockNotAvailable

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "drop_unused_subjects", locked)
        with pytest.raises(LockNotAvailable):
            erasure.erase([NUMBER], wait=False)
    assert erasure.erase([NUMBER], wait=False)["subjects"] == 1
    assert not ComplaintSubject.objects.exists()


@pytest.mark.skipif(plugin.production(), reason="PostgreSQL has its VACUUM")
@pytest.mark.django_db(transaction=True)
def test_erase_reports_a_reader_that_prevents_overwriting() -> None:
    known(NUMBER)
    assert erasure.erase([NUMBER])["overwritten"]
    known(OTHER)
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM phonebook_contact").fetchall()
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 1")
        assert not erasure.erase([OTHER])["overwritten"]
    assert erasure.erase([OTHER])["overwritten"]
    connection.close()


@pytest.mark.skipif(not plugin.production(), reason="SQLite has no limit of statements")
def test_scans_may_take_longer_than_others(db: None, settings: Any) -> None:
    settings.DB_STATEMENT_TIMEOUT_MS = 500
    with core_db.scan():
        assert core_db.fetch_one("SHOW statement_timeout") == ("20s",)


def test_history_of_numbers_has_them_masked(admin_client: Client) -> None:
    forms: dict[str, dict[str, Any]] = {
        "contact": {"name": "x", "location": ""},
        "numberrule": {"spam": "true", "name": "", "note": ""},
        "complaintday": {"source": "desk", "day": "2026-01-02", "total": 1, "robocalls": 0},
    }
    models = {"contact": Contact, "numberrule": NumberRule, "complaintday": ComplaintDay}
    for model, fields in forms.items():
        admin_client.post(f"/admin/phonebook/{model}/add/", {"number": f"+{NUMBER}", **fields})
        pk = models[model]._default_manager.get().pk
        changed = {**fields, **({"total": 2} if model == "complaintday" else {"name": "y"})}
        admin_client.post(f"/admin/phonebook/{model}/{pk}/change/", changed)
        if model == "contact":
            admin_client.post(f"/admin/phonebook/{model}/{pk}/delete/", {"post": "yes"})
        else:
            chosen = {"action": "delete_selected", "_selected_action": pk, "post": "yes"}
            admin_client.post(f"/admin/phonebook/{model}/", chosen)
        assert not models[model]._default_manager.exists()
    masked = "49********42"
    names = list(LogEntry.objects.order_by("pk").values_list("object_repr", flat=True))
    assert names == [*[masked] * 6, *[f"{masked} 2026-01-02"] * 3]
    assert NUMBER not in str(list(LogEntry.objects.values()))


def test_history_masks_a_long_prefix_and_keeps_a_short_one(admin_client: Client) -> None:
    for number in ("4930231250", "4930"):
        fields = {"number": number, "is_prefix": "on", "spam": "true", "name": "", "note": ""}
        admin_client.post("/admin/phonebook/numberrule/add/", fields)
    assert list(LogEntry.objects.order_by("pk").values_list("object_repr", flat=True)) == ["49******50…", "4930…"]
