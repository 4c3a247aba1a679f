"""Uploads: their parts, the check, the import, and who is refused what."""

import gzip
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from phonebook.imports import batches, staging, undo, upload_process, uploads
from phonebook.imports.contacts import ContactImport
from phonebook.imports.uploads import UploadRefused
from phonebook.models import ComplaintDay, Contact, ImportBatch, ImportPart, ImportUpload
from tests.monitoring.concurrency import in_threads

FIRST = 12_125_550_100
CSV = f"number,name,location\n{FIRST},Eve,Springfield\n{FIRST + 1},Ann,\n{FIRST},Bob,\n12,Zoe,\n"
State = ImportBatch.State


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches for which a process was started. None is: tests call what it would."""
    batch_ids: list[int] = []
    monkeypatch.setattr(uploads, "_run_process", batch_ids.append)
    monkeypatch.setattr(transaction, "on_commit", lambda call: call())
    monkeypatch.setattr(upload_process, "HEARTBEAT_S", 3600)
    return batch_ids


def begin(size: int, by: str = "olga", **options: Any) -> ImportBatch:
    kind = options.pop("kind", ImportBatch.Kind.CONTACTS)
    return uploads.begin(kind=kind, by=by, file_name="people.csv", size=size, options=options)


def uploaded(content: str | bytes = CSV, **options: Any) -> ImportBatch:
    content = content.encode() if isinstance(content, str) else content
    batch = begin(len(content), **options)
    for offset in range(0, len(content), uploads.PART_BYTES):
        uploads.append(
            batch_id=batch.pk, by=batch.by, offset=offset, content=content[offset : offset + uploads.PART_BYTES]
        )
    return batch


def checked(content: str | bytes = CSV, **options: Any) -> ImportBatch:
    batch = uploaded(content, **options)
    call_command("process_import", str(batch.pk))
    batch.refresh_from_db()
    return batch


def imported(batch: ImportBatch) -> ImportBatch:
    uploads.confirm(batch_id=batch.pk, by=batch.by)
    call_command("process_import", str(batch.pk))
    batch.refresh_from_db()
    return batch


# --- Parts -------------------------------------------------------------------------------------------------------

FILE = bytes(range(22))
PART = 5
OFFSETS = range(0, len(FILE), PART)


@pytest.mark.django_db
@given(
    sent=st.lists(
        st.tuples(
            st.integers(-1, 26) | st.sampled_from(OFFSETS),
            st.integers(0, 7) | st.just(PART),
            st.sampled_from((FILE, b"?" * 30)),
        ),
        max_size=20,
    )
)
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_parts_in_any_order_never_make_another_file(sent: list[tuple[int, int, bytes]], started: list[int]) -> None:
    """Parts of any offset and length, right and wrong, as often as one likes: what is stored is the file's beginning,
    and one process starts at its end. (A wrong part in place of the next one is left out: who could tell?)"""
    started.clear()
    batch, expected = begin(len(FILE)), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uploads, "PART_BYTES", PART)
        for offset, length, source in [*sent, *((offset, PART, FILE) for offset in OFFSETS)]:
            content = source[max(offset, 0) :][:length]
            if source is not FILE and offset == expected:
                continue
            is_part = source is FILE and offset in OFFSETS and content == FILE[offset:][:PART]
            try:
                received = uploads.append(batch_id=batch.pk, by="olga", offset=offset, content=content)
            except UploadRefused:
                assert not is_part or offset > expected
            else:
                assert is_part
                assert offset <= expected
                expected += len(content) if offset == expected else 0
                assert received == expected
            parts = ImportPart.objects.filter(upload__batch=batch).order_by("offset")
            assert b"".join(parts.values_list("content", flat=True)) == FILE[:expected]
    assert (expected, started) == (len(FILE), [batch.pk])


@pytest.mark.django_db
def test_part_of_another_user_is_refused(started: list[int]) -> None:
    batch = begin(3)
    with pytest.raises(ImportUpload.DoesNotExist):
        uploads.append(batch_id=batch.pk, by="eve", offset=0, content=b"abc")
    for step in (uploads.confirm, uploads.restart):
        with pytest.raises(UploadRefused):
            step(batch_id=batch.pk, by="eve")
    assert not uploads.discard(batch_id=batch.pk, by="eve")
    assert (ImportUpload.objects.get().received, started) == (0, [])


@pytest.mark.django_db
def test_new_upload_replaces_the_one_that_waits() -> None:
    others, first = uploaded(by="eve"), checked()
    second = begin(3)
    assert set(ImportBatch.objects.all()) == {others, second}
    assert set(ImportPart.objects.values_list("upload__batch", flat=True)) == {others.pk}
    with pytest.raises(UploadRefused):
        uploads.confirm(batch_id=first.pk, by="olga")


@pytest.mark.django_db(transaction=True)
def test_uploads_that_begin_at_once_leave_one_waiting() -> None:
    def run() -> str:
        try:
            return begin(3).file_name
        except UploadRefused as error:
            return str(error)

    in_threads(4, run)
    assert ImportUpload.objects.count() == ImportBatch.objects.count() == 1


# --- Check and import --------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_check_shows_what_would_change_and_changes_nothing() -> None:
    Contact.objects.create(number=FIRST, name="Old name")
    batch = checked()
    assert (batch.state, Contact.objects.get().name) == (State.READY, "Old name")
    counted = {name: batch.counts[name] for name in ("read", "added", "changed", "repeated", "rejected")}
    reason = "number must have 7 to 15 digits"
    assert counted == {"read": 4, "added": 1, "changed": 1, "repeated": 1, "rejected": {reason: 1}}
    assert [(row["file"], row["line"]) for row in batch.faults] == [("people.csv", 5), ("people.csv", 4)]
    assert batch.upload.preview == [
        {"number": str(FIRST), "key": "", "before": "Old name", "after": "Eve, Springfield"},
        {"number": str(FIRST + 1), "key": "", "before": "", "after": "Ann"},
    ]


@pytest.mark.django_db
def test_check_of_complaints_shows_days_and_removed_numbers() -> None:
    day = "2026-01-02"
    for number, total in ((FIRST, 3), (FIRST + 1, 4)):
        ComplaintDay.objects.create(number=number, source="desk", day=day, total=total)
    text = f"number,day,total\n{FIRST},{day},5\n{FIRST + 2},{day},1\n"
    batch = checked(text, kind=ImportBatch.Kind.COMPLAINTS, source="desk", format="csv")
    assert batch.upload.preview == [
        {"number": str(FIRST), "key": f"desk {day}", "before": "total 3", "after": "total 5"},
        {"number": str(FIRST + 1), "key": f"desk {day}", "before": "total 4", "after": ""},
        {"number": str(FIRST + 2), "key": f"desk {day}", "before": "", "after": "total 1"},
    ]
    assert imported(batch).counts["removed"] == 1
    assert dict(ComplaintDay.objects.values_list("number", "total")) == {FIRST: 5, FIRST + 2: 1}


@pytest.mark.django_db
def test_preview_has_at_most_ten_rows() -> None:
    Contact.objects.create(number=FIRST + 29, name="Old name")
    batch = checked("number,name\n" + "".join(f"{FIRST + n},Name {n}\n" for n in range(30)))
    assert [row["number"] for row in batch.upload.preview or ()] == [str(FIRST + n) for n in (29, *range(9))]


@pytest.mark.django_db
def test_confirmed_file_is_imported_recorded_and_deleted() -> None:
    user = User.objects.create_user("olga")
    Contact.objects.create(number=FIRST, name="Old name")
    batch = imported(checked(gzip.compress(CSV.encode())))
    assert (batch.state, batch.counts["added"], batch.counts["changed"], len(batch.faults)) == (State.DONE, 1, 1, 2)
    assert not ImportUpload.objects.exists()
    assert not ImportPart.objects.exists()
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (user, str(batch.pk))
    assert (
        entry.change_message
        == "Imported in the console: 1 added, 1 changed, 0 unchanged, 0 removed, 1 repeated, 1 rejected."
    )
    undo.undo(batch_id=batch.pk, by="olga")
    assert dict(Contact.objects.values_list("number", "name")) == {FIRST: "Old name"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("<html>", "people.csv: this is a web page, perhaps an error message that was saved instead of the file."),
        ("number,name\n12,Zoe\n", "people.csv: no valid row."),
        (gzip.compress(b"number,name\n" * 100_000), "people.csv: the file is larger than 1 MB, unpacked."),
    ],
)
def test_unreadable_file_fails_and_is_deleted(monkeypatch: pytest.MonkeyPatch, content: str | bytes, says: str) -> None:
    monkeypatch.setattr(upload_process, "MAX_UNPACKED_BYTES", 2**20)
    batch = uploaded(content)
    with pytest.raises(CommandError, match=f"^Import {batch.pk}: UnreadableFile; see its page.$"):
        call_command("process_import", str(batch.pk))
    batch.refresh_from_db()
    assert (batch.state, batch.error) == (State.FAILED, says)
    assert not ImportUpload.objects.exists()


@pytest.mark.django_db
def test_unexpected_error_is_recorded_without_its_text(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError(f"{FIRST} Eve")

    batch = checked()
    monkeypatch.setattr(ContactImport, "derive_merged", fail)
    uploads.confirm(batch_id=batch.pk, by="olga")
    with pytest.raises(CommandError) as raised:
        call_command("process_import", str(batch.pk))
    batch.refresh_from_db()
    assert (batch.state, batch.error, Contact.objects.count()) == (State.FAILED, "RuntimeError.", 0)
    assert "Eve" not in f"{raised.value}{capsys.readouterr()}"


@pytest.mark.django_db
def test_process_runs_once_for_each_step(started: list[int]) -> None:
    batch = checked()
    stdout = io.StringIO()
    call_command("process_import", str(batch.pk), stdout=stdout)  # of the check that has ended
    batch.refresh_from_db()
    assert batch.state == State.READY
    imported(batch)
    call_command("process_import", str(batch.pk))
    assert (started, Contact.objects.count()) == ([batch.pk] * 2, 2)


@pytest.mark.django_db(transaction=True)
def test_two_confirmations_at_once_start_one_process(started: list[int]) -> None:
    batch = checked()
    started.clear()

    def confirm() -> bool:
        try:
            uploads.confirm(batch_id=batch.pk, by="olga")
        except UploadRefused:
            return False
        return True

    assert sorted(in_threads(4, confirm)) == [False, False, False, True]
    assert started == [batch.pk]


@pytest.mark.django_db(transaction=True)
def test_confirming_and_discarding_at_once_do_one_of_them(started: list[int]) -> None:
    for _ in range(5):
        batch = checked()
        started.clear()
        steps: list[Callable[..., Any]] = [uploads.confirm, uploads.discard]

        def step(batch_id: int = batch.pk, steps: list[Callable[..., Any]] = steps) -> bool:
            try:
                return steps.pop()(batch_id=batch_id, by="olga") is not False
            except UploadRefused:
                return False

        assert sorted(in_threads(2, step)) == [False, True]
        is_there = ImportBatch.objects.filter(pk=batch.pk, state=State.RUNNING, upload__isnull=False).exists()
        assert is_there == bool(started)
        ImportBatch.objects.all().delete()


# --- Interrupted, discarded, erased ------------------------------------------------------------------------------


def silence(batch: ImportBatch) -> None:
    """As if its process had been killed a while ago."""
    ImportUpload.objects.filter(batch=batch).update(
        seen_at=timezone.now() - uploads.HEARTBEAT_TIMEOUT - timedelta(seconds=1)
    )
    batch.refresh_from_db()


@pytest.mark.django_db
def test_interrupted_import_starts_again_as_a_new_batch(started: list[int]) -> None:
    batch = checked()
    uploads.confirm(batch_id=batch.pk, by="olga")
    with pytest.raises(UploadRefused):
        uploads.restart(batch_id=batch.pk, by="olga")
    assert not uploads.discard(batch_id=batch.pk, by="olga")
    ImportBatch.objects.filter(pk=batch.pk).update(can_undo=True, last_id=7)  # it had begun to write
    silence(batch)
    assert uploads.is_interrupted(batch)
    new = uploads.restart(batch_id=batch.pk, by="olga")
    batch = ImportBatch.objects.get(pk=batch.pk)
    assert (batch.state, batch.error, batch.can_undo, batch.last_id) == (State.FAILED, "Interrupted.", True, 7)
    assert started[-1] == new.pk
    with pytest.raises(UploadRefused):
        uploads.restart(batch_id=batch.pk, by="olga")
    call_command("process_import", str(new.pk))
    new = ImportBatch.objects.get(pk=new.pk)
    assert (new.state, new.file_name) == (State.READY, "people.csv")
    assert imported(new).counts["added"] == 2


@pytest.mark.django_db
def test_signal_keeps_the_file_for_another_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    batch = checked()
    uploads.confirm(batch_id=batch.pk, by="olga")
    with monkeypatch.context() as patch:
        patch.setattr(ContactImport, "derive_merged", interrupt)
        with pytest.raises(CommandError):
            call_command("process_import", str(batch.pk))
    batch = ImportBatch.objects.get(pk=batch.pk)
    assert (batch.state, batch.error, uploads.is_interrupted(batch)) == (State.FAILED, "Interrupted.", True)
    new = uploads.restart(batch_id=batch.pk, by="olga")
    call_command("process_import", str(new.pk))
    assert imported(ImportBatch.objects.get(pk=new.pk)).counts["added"] == 2


@pytest.mark.django_db
def test_old_and_erased_uploads_are_deleted() -> None:
    waiting, running, interrupted = checked(by="a"), checked(by="b"), checked(by="c")
    for batch in (running, interrupted):
        uploads.confirm(batch_id=batch.pk, by=batch.by)
    silence(interrupted)
    assert uploads.prune() == 0
    old = timezone.now() - uploads.KEPT - timedelta(minutes=1)
    ImportBatch.objects.filter(pk=waiting.pk).update(created_at=old)
    assert uploads.prune() == 1
    assert set(ImportBatch.objects.all()) == {running, interrupted}
    ImportBatch.objects.filter(pk=running.pk).update(created_at=old)  # uploaded a day before it was confirmed
    batches.prune()
    assert ImportBatch.objects.get(pk=running.pk).state == State.RUNNING
    begin(3)
    assert uploads.discard_all() == 3
    assert list(ImportBatch.objects.order_by("pk").values_list("state", flat=True)) == [State.FAILED, State.FAILED]


@pytest.mark.django_db
def test_forget_stops_a_confirmed_import_that_has_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = checked()
    uploads.confirm(batch_id=batch.pk, by=batch.by)
    compare = staging.StagingTables.compare

    def forget(*args: Any) -> None:
        uploads.discard_all()  # as `forget` does, before the import gets the lock
        compare(*args)

    monkeypatch.setattr(staging.StagingTables, "compare", forget)
    with pytest.raises(CommandError, match="KeyboardInterrupt"):
        call_command("process_import", str(batch.pk))
    batch.refresh_from_db()
    assert (batch.state, batch.error) == (State.FAILED, "Interrupted.")
    assert not Contact.objects.exists()
