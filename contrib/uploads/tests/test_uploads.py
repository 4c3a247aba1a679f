"""Uploads: their parts, the check, the import, and who is refused what."""

import gzip
import random
import signal
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from contrib.uploads import background_process, undo, upload_process, uploads
from contrib.uploads.models import ImportPart, ImportUpload
from contrib.uploads.uploads import UploadRefused
from core.text import storable
from phonebook.imports import staging
from phonebook.imports.contacts import ContactImport
from phonebook.models import ComplaintDay, Contact, ImportBatch
from tests.monitoring.concurrency import in_threads

FIRST = 12_125_550_100
CSV = f"number,name,location\n{FIRST},Eve,Springfield\n{FIRST + 1},Ann,\n{FIRST},Bob,\n12,Zoe,\n"
State = ImportUpload.State


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The uploads for which a process was started. None is: tests call what it would."""
    upload_ids: list[int] = []
    monkeypatch.setattr(
        uploads, "run_waiting", lambda: upload_ids.extend(uploads.waiting().values_list("pk", flat=True))
    )
    monkeypatch.setattr(transaction, "on_commit", lambda call: call())
    monkeypatch.setattr(upload_process, "HEARTBEAT_S", 3600)
    return upload_ids


def begin(size: int, by: str = "olga", **options: Any) -> ImportUpload:
    user, _ = User.objects.get_or_create(username=by)
    kind = options.pop("kind", ImportBatch.Kind.CONTACTS)
    return uploads.begin(user=user, kind=kind, file_name="people.csv", size=size, options=options)


def uploaded(content: str | bytes = CSV, **options: Any) -> ImportUpload:
    content = content.encode() if isinstance(content, str) else content
    upload = begin(len(content), **options)
    for offset in range(0, len(content), uploads.PART_BYTES):
        uploads.append(upload, offset=offset, content=content[offset : offset + uploads.PART_BYTES])
    return upload


def checked(content: str | bytes = CSV, **options: Any) -> ImportUpload:
    upload = uploaded(content, **options)
    call_command("process_import", str(upload.pk))
    upload.refresh_from_db()
    return upload


def imported(upload: ImportUpload) -> ImportBatch:
    batch = uploads.confirm(upload)
    call_command("process_import", str(upload.pk))
    batch.refresh_from_db()
    return batch


# --- The check ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_check_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def expire(*_: object) -> None:
        """While it is read: anywhere, such as in tqdm, an interruption may leave a lock to the tests after this one."""
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= upload_process.CHECK_TIMEOUT_S
        signal.raise_signal(signal.SIGALRM)

    upload = uploaded()
    with monkeypatch.context() as patch:
        patch.setattr(ContactImport, "reader_options", expire)
        with pytest.raises(CommandError, match="UnreadableFile"):
            call_command("process_import", str(upload.pk))
    upload.refresh_from_db()
    assert (upload.state, upload.parts.count()) == (State.FAILED, 0)
    assert "the check took more than 15 minutes" in upload.error
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert checked(by="eve").state == State.READY


@pytest.mark.django_db(transaction=True)
def test_check_waits_for_no_import() -> None:
    upload, locked, end = uploaded(), Event(), Event()

    def write_slowly() -> None:
        with staging.Tables.lock(ContactImport.table):
            locked.set()
            end.wait()
        connection.close()

    writer = Thread(target=write_slowly)
    writer.start()
    locked.wait()
    try:
        call_command("process_import", str(upload.pk))
    finally:
        end.set()
        writer.join()
    upload.refresh_from_db()
    assert upload.state == State.READY


@pytest.mark.django_db
@pytest.mark.parametrize("encoding", ["utf_16_le", "cp932", "gb18030", "euc_kr", "cp1252", ""])
def test_noise_becomes_unicode_or_is_rejected(encoding: str) -> None:
    noise = random.Random(encoding).randbytes(20_000).replace(b"\n", b"\0").replace(b",", b"")
    rows = b"".join(b"%d,%b\n" % (FIRST + n, noise[n * 10 :][:10]) for n in range(2_000))
    content = b"number,name\n" + rows + b"%d,Eve\n" % (FIRST + 5_000)
    if encoding == "utf_16_le":
        content = content.decode("latin-1").encode(encoding)
    upload = checked(content, encoding=encoding)
    assert upload.state == State.READY
    imported(upload)
    assert all(storable(contact.name) == contact.name for contact in Contact.objects.all())
    assert Contact.objects.filter(name="Eve").exists()


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
    upload, expected = begin(len(FILE)), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uploads, "PART_BYTES", PART)
        for offset, length, source in [*sent, *((offset, PART, FILE) for offset in OFFSETS)]:
            content = source[max(offset, 0) :][:length]
            if source is not FILE and offset == expected:
                continue
            is_part = source is FILE and offset in OFFSETS and content == FILE[offset:][:PART]
            try:
                received = uploads.append(upload, offset=offset, content=content)
            except UploadRefused:
                assert not is_part or offset > expected
            else:
                assert is_part
                assert offset <= expected
                expected += len(content) if offset == expected else 0
                assert received == expected
            parts = upload.parts.order_by("offset")
            assert b"".join(parts.values_list("content", flat=True)) == FILE[:expected]
    assert (expected, started) == (len(FILE), [upload.pk])


@pytest.mark.django_db
def test_new_upload_replaces_the_one_that_waits() -> None:
    others, first = uploaded(by="eve"), checked()
    second = begin(3)
    assert set(ImportUpload.objects.all()) == {others, second}
    assert set(ImportPart.objects.values_list("upload", flat=True)) == {others.pk}
    with pytest.raises(UploadRefused):
        uploads.confirm(first)


@pytest.mark.django_db
def test_no_upload_begins_while_one_is_imported() -> None:
    """So each user has one process at a time."""
    first = checked()
    uploads.confirm(first)
    with pytest.raises(UploadRefused, match="Another file of yours"):
        begin(3)
    assert begin(3, by="eve").received == 0
    call_command("process_import", str(first.pk))
    assert begin(3).received == 0


@pytest.mark.django_db
def test_files_of_all_users_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The declared sizes count: no more is received."""
    monkeypatch.setattr(uploads, "MAX_STORED_BYTES", 10)
    begin(6)
    assert begin(10).size == 10  # in place of the first one
    with pytest.raises(UploadRefused, match="Too many files are waiting"):
        begin(1, by="eve")
    ImportUpload.objects.update(state=State.FAILED)  # its parts are deleted
    assert begin(1, by="eve").size == 1


@pytest.mark.django_db(transaction=True)
def test_uploads_that_begin_at_once_leave_one_waiting() -> None:
    User.objects.create_user("olga")

    def run() -> str:
        try:
            return begin(3).file_name
        except UploadRefused as error:
            return str(error)

    in_threads(4, run)
    assert ImportUpload.objects.count() == 1


# --- Check and import --------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_check_shows_what_would_change_and_changes_nothing() -> None:
    Contact.objects.create(number=FIRST, name="Old name")
    upload = checked()
    assert (upload.state, Contact.objects.get().name) == (State.READY, "Old name")
    counted = {name: upload.counts[name] for name in ("read", "added", "changed", "repeated", "rejected")}
    reason = "number must have 7 to 15 digits"
    assert counted == {"read": 4, "added": 1, "changed": 1, "repeated": 1, "rejected": {reason: 1}}
    assert not ImportBatch.objects.exists()
    assert [(row["file"], row["line"]) for row in upload.faults] == [("people.csv", 5), ("people.csv", 4)]
    assert upload.preview == [
        {"number": str(FIRST), "key": "", "before": "Old name", "after": "Eve · Springfield"},
        {"number": str(FIRST + 1), "key": "", "before": "", "after": "Ann"},
    ]


@pytest.mark.django_db
def test_check_of_complaints_shows_days_and_removed_numbers() -> None:
    day = "2026-01-02"
    for number, total in ((FIRST, 3), (FIRST + 1, 4)):
        ComplaintDay.objects.create(number=number, source="desk", day=day, total=total)
    text = f"number,day,total\n{FIRST},{day},5\n{FIRST + 2},{day},1\n"
    upload = checked(text, kind=ImportBatch.Kind.COMPLAINTS, source="desk", format="csv")
    assert upload.preview == [
        {"number": str(FIRST), "key": f"desk {day}", "before": "total 3", "after": "total 5"},
        {"number": str(FIRST + 1), "key": f"desk {day}", "before": "total 4", "after": ""},
        {"number": str(FIRST + 2), "key": f"desk {day}", "before": "", "after": "total 1"},
    ]
    assert imported(upload).counts["removed"] == 1
    assert dict(ComplaintDay.objects.values_list("number", "total")) == {FIRST: 5, FIRST + 2: 1}


@pytest.mark.django_db
def test_preview_has_a_limited_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_process, "MAX_EXAMPLES", 10)
    Contact.objects.create(number=FIRST + 29, name="Old name")
    upload = checked("number,name\n" + "".join(f"{FIRST + n},Name {n}\n" for n in range(30)))
    assert [row["number"] for row in upload.preview] == [str(FIRST + n) for n in (29, *range(9))]


@pytest.mark.django_db
def test_confirmed_file_is_imported_recorded_and_deleted() -> None:
    Contact.objects.create(number=FIRST, name="Old name")
    batch = imported(checked(gzip.compress(CSV.encode())))
    assert (batch.state, batch.counts["added"], batch.counts["changed"], len(batch.faults)) == ("done", 1, 1, 2)
    assert (batch.by, batch.file_name) == ("olga", "people.csv")
    assert not ImportUpload.objects.exists()
    assert not ImportPart.objects.exists()
    entry = LogEntry.objects.get()
    assert (entry.user.username, entry.object_id) == ("olga", str(batch.pk))
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
        (
            "<html>",
            "people.csv: this is a web page or other XML, perhaps an error message that was saved instead of the file.",
        ),
        ("number,name\n12,Zoe\n", "people.csv: no valid row."),
        (gzip.compress(b"number,name\n" * 100_000), "people.csv: the file is larger than 1 MB, unpacked."),
    ],
)
def test_unreadable_file_fails_and_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, content: str | bytes, says: str
) -> None:
    monkeypatch.setattr(upload_process, "MAX_UNPACKED_BYTES", 2**20)
    upload = uploaded(content)
    with pytest.raises(CommandError, match=f"^Upload {upload.pk}: UnreadableFile; see its page.$"):
        call_command("process_import", str(upload.pk))
    upload.refresh_from_db()
    assert (upload.state, upload.error) == (State.FAILED, says)
    assert not ImportPart.objects.exists()
    assert not ImportBatch.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "says"), [(RuntimeError(f"{FIRST} Eve"), "RuntimeError."), (KeyboardInterrupt(), "Interrupted.")]
)
def test_failed_import_is_recorded_without_the_errors_text(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, error: BaseException, says: str
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    upload = checked()
    monkeypatch.setattr(ContactImport, "derive_merged", fail)
    batch = uploads.confirm(upload)
    with pytest.raises(CommandError) as raised:
        call_command("process_import", str(upload.pk))
    batch.refresh_from_db()
    assert (batch.state, batch.error, Contact.objects.count()) == ("failed", says, 0)
    assert "Eve" not in f"{raised.value}{capsys.readouterr()}"
    assert not ImportUpload.objects.exists()


@pytest.mark.django_db
def test_process_runs_once_for_each_step(started: list[int]) -> None:
    upload = checked()
    call_command("process_import", str(upload.pk))  # of the check that has ended
    upload.refresh_from_db()
    assert upload.state == State.READY
    imported(upload)
    call_command("process_import", str(upload.pk))
    assert (started, Contact.objects.count()) == ([upload.pk] * 2, 2)


@pytest.mark.django_db(transaction=True)
def test_two_confirmations_at_once_start_one_process(started: list[int]) -> None:
    upload = checked()
    started.clear()

    def confirm() -> bool:
        try:
            uploads.confirm(ImportUpload.objects.get(pk=upload.pk))
        except UploadRefused:
            return False
        return True

    assert sorted(in_threads(4, confirm)) == [False, False, False, True]
    assert (started, ImportBatch.objects.count()) == ([upload.pk], 1)


@pytest.mark.django_db(transaction=True)
def test_confirming_and_discarding_at_once_do_one_of_them(started: list[int]) -> None:
    for _ in range(5):
        upload = checked()
        started.clear()
        steps: list[Callable[[ImportUpload], Any]] = [uploads.confirm, uploads.discard]

        def step(upload: ImportUpload = upload, steps: list[Callable[[ImportUpload], Any]] = steps) -> bool:
            try:
                return steps.pop()(ImportUpload.objects.get(pk=upload.pk)) is not False
            except (UploadRefused, ImportUpload.DoesNotExist):
                return False

        assert sorted(in_threads(2, step)) == [False, True]
        is_there = ImportUpload.objects.filter(state=State.IMPORTING, batch__state="running").exists()
        assert is_there == bool(started)
        ImportUpload.objects.all().delete()


# --- The processes ------------------------------------------------------------------------------------------------


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> dict[int, Callable[[], None]]:
    """By their upload: what ends the process that was started for it."""
    monkeypatch.undo()
    found: dict[int, Callable[[], None]] = {}

    def start(command: str, pk: str, *, on_end: Callable[[], None]) -> None:
        assert command == "process_import"
        found[int(pk)] = on_end

    monkeypatch.setattr(background_process, "start", start)
    monkeypatch.setattr(transaction, "on_commit", lambda call: call())
    monkeypatch.setattr(uploads, "_running", {})
    return found


@pytest.mark.django_db
def test_two_files_are_checked_at_once_the_oldest_first(processes: dict[int, Callable[[], None]]) -> None:
    first, second, third, fourth = (uploaded(by=name) for name in "abcd")
    assert set(processes) == {first.pk, second.pk}
    silence(first)
    uploads.end_killed()
    uploads.run_waiting()  # as each page of an upload does
    assert set(processes) == {first.pk, second.pk}
    uploads.discard(third)
    processes.pop(first.pk)()
    assert set(processes) == {second.pk, fourth.pk}
    assert dict(ImportUpload.objects.values_list("pk", "state")) == {
        first.pk: State.FAILED,
        second.pk: State.CHECKING,
        fourth.pk: State.CHECKING,
    }


@pytest.mark.django_db
def test_checks_and_imports_do_not_fill_all_places(processes: dict[int, Callable[[], None]]) -> None:
    """One import for each table, and three processes in total."""
    kinds = {"a": ImportBatch.Kind.CONTACTS, "b": ImportBatch.Kind.CONTACTS, "c": ImportBatch.Kind.COMPLAINTS}
    ready = [begin(3, by=name, kind=kind) for name, kind in kinds.items()]
    ImportUpload.objects.filter(pk__in=[each.pk for each in ready]).update(state=State.READY)
    for each in ready:
        uploads.confirm(each)
    assert set(processes) == {ready[0].pk, ready[2].pk}
    first, second = uploaded(by="d"), uploaded(by="e")
    assert set(processes) == {ready[0].pk, ready[2].pk, first.pk}
    ImportUpload.objects.filter(pk=ready[2].pk).delete()
    processes.pop(ready[2].pk)()
    assert set(processes) == {ready[0].pk, first.pk, second.pk}


@pytest.mark.django_db
def test_process_that_never_begins_is_not_repeated(processes: dict[int, Callable[[], None]]) -> None:
    """As if it were killed at its start, for want of memory."""
    upload = uploaded()
    processes.pop(upload.pk)()
    upload.refresh_from_db()
    assert (upload.state, upload.error, processes) == (State.FAILED, "Interrupted.", {})


# --- Killed, discarded, erased -----------------------------------------------------------------------------------


def silence(*found: ImportUpload) -> None:
    """As if their processes had been killed a while ago."""
    seen_at = timezone.now() - uploads.HEARTBEAT_TIMEOUT - timedelta(seconds=1)
    ImportUpload.objects.filter(pk__in=[each.pk for each in found]).update(seen_at=seen_at, done=0)


@pytest.mark.django_db
def test_check_and_import_whose_process_was_killed_have_failed() -> None:
    checking, ready, importing, running = uploaded(by="a"), checked(by="b"), checked(by="c"), checked(by="d")
    batch, other = uploads.confirm(importing), uploads.confirm(running)
    ImportBatch.objects.filter(pk=batch.pk).update(can_undo=True, last_id=7)  # it had begun to write
    silence(checking, ready, importing)
    uploads.end_killed()
    assert dict(ImportUpload.objects.values_list("user__username", "state")) == {
        "a": State.FAILED,
        "b": State.READY,
        "d": State.IMPORTING,
    }
    assert not checking.parts.exists()
    batch.refresh_from_db()
    other.refresh_from_db()
    assert (batch.state, batch.error, batch.can_undo, other.state) == ("failed", "Interrupted.", True, "running")


@pytest.mark.django_db
def test_import_that_ended_before_its_process_was_killed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    upload = checked()
    with monkeypatch.context() as patch:
        patch.setattr(ImportUpload, "delete", lambda self: None)
        batch = imported(upload)
    silence(upload)
    uploads.end_killed()
    batch.refresh_from_db()
    assert (batch.state, ImportUpload.objects.exists()) == ("done", False)


@pytest.mark.django_db
def test_old_and_erased_uploads_are_deleted() -> None:
    waiting, running = checked(by="a"), checked(by="b")
    batch = uploads.confirm(running)
    assert uploads.prune() == 0
    ImportUpload.objects.update(created_at=timezone.now() - uploads.KEPT - timedelta(minutes=1))
    assert uploads.prune() == 1
    assert not ImportUpload.objects.filter(pk=waiting.pk).exists()
    begin(3)
    assert uploads.discard_all() == 2
    batch.refresh_from_db()
    assert (batch.state, batch.error) == ("failed", "Interrupted.")


@pytest.mark.django_db
def test_forget_stops_a_confirmed_import_that_has_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    upload = checked()
    batch = uploads.confirm(upload)
    compare = staging.StagingTables.compare

    def forget(*args: Any) -> None:
        uploads.discard_all()  # as `forget` does, before the import gets the lock
        compare(*args)

    monkeypatch.setattr(staging.StagingTables, "compare", forget)
    with pytest.raises(CommandError, match="Stopped"):
        call_command("process_import", str(upload.pk))
    batch.refresh_from_db()
    assert (batch.state, batch.error) == ("failed", "Interrupted.")
    assert not Contact.objects.exists()


@pytest.mark.django_db
def test_upload_of_a_deleted_user_is_deleted() -> None:
    upload = checked()
    upload.user.delete()
    assert not ImportUpload.objects.exists()
    call_command("process_import", str(upload.pk))
