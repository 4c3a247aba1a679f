"""What an undo needs is stored and deleted."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from contrib.uploads import undo
from contrib.uploads.models import ImportChange
from contrib.uploads.undo import CannotUndo
from phonebook.imports import batches
from phonebook.imports.staging import Tables, TargetTable
from phonebook.models import ComplaintSubject, ImportBatch
from tests.phonebook.commands.imports import Ran
from tests.phonebook.imports.loading import FIRST, Write, complaints, contacts

State = ImportBatch.State


@pytest.mark.django_db
def test_large_changes_are_not_stored(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_CHANGES", 1)
    monkeypatch.setattr(undo, "MAX_CHANGES", 1)
    one = contacts(write, {0: "Ann", 1: "Ann"})
    two = contacts(write, {0: "Bob", 1: "Bob"})
    assert not ImportChange.objects.exists()
    with pytest.raises(CannotUndo, match="It changed or removed more than 1 rows"):
        undo.preview(batch_id=two)
    with pytest.raises(CannotUndo, match=f"Import {two} came later, and cannot be undone."):
        undo.undo(batch_id=one, by="ann")


@pytest.mark.django_db
def test_import_without_valid_rows_has_nothing_to_undo(write: Write) -> None:
    Ran("import_contacts", write("number,name\n12,Bob\n"))
    assert undo.problem(ImportBatch.objects.get()).reason == "Nothing to undo."


@pytest.mark.django_db
def test_prune_deletes_what_an_undo_needs_and_later_the_rest(write: Write) -> None:
    contacts(write, {0: "Ann"})
    two = contacts(write, {0: "Bob"})
    batch = ImportBatch.objects.filter(pk=two)
    many = (ImportChange(batch_id=two, row_id=1_000_000 + n, number=FIRST + n) for n in range(1_200))
    ImportChange.objects.bulk_create(many)
    call_command("prune", stdout=StringIO())
    assert ImportChange.objects.exists()
    now = datetime.now(UTC)
    batch.update(created_at=now - timedelta(days=undo.UNDO_DAYS + 1), faults=[{"line": 1}])
    call_command("prune", stdout=StringIO())
    assert not ImportChange.objects.exists()
    assert (batch.get().can_undo, batch.get().faults) == (False, [])
    assert undo.problem(batch.get()).reason == "Imports can be undone for 30 days."
    batch.update(created_at=now - timedelta(days=401))
    call_command("prune", stdout=StringIO())
    assert not batch.exists()


@pytest.mark.django_db
def test_prune_ends_an_undo_that_was_not_continued(write: Write) -> None:
    contacts(write, {0: "Ann"})
    two = contacts(write, {0: "Bob"})
    batch = ImportBatch.objects.filter(pk=two)
    batch.update(state=State.UNDOING, undo={"restored": 0, "put_back": 0, "deleted": 0, "left": 0})
    call_command("prune", stdout=StringIO())
    assert batch.get().state == State.UNDOING
    batch.update(created_at=datetime.now(UTC) - timedelta(days=undo.UNDO_DAYS + 1))
    call_command("prune", stdout=StringIO())
    assert (batch.get().state, batch.get().can_undo) == (State.FAILED, False)
    assert batch.get().error.startswith("Only some of its rows were undone")
    assert not ImportChange.objects.exists()
    with pytest.raises(CannotUndo, match="Imports can be undone for 30 days"):
        undo.undo(batch_id=two, by="ann")


@pytest.mark.django_db
def test_prune_ends_no_undo_that_is_running(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the lock, and then finds the import undone."""
    contacts(write, {0: "Ann"})
    two = contacts(write, {0: "Bob"})
    batch = ImportBatch.objects.filter(pk=two)
    batch.update(state=State.UNDOING, created_at=datetime.now(UTC) - timedelta(days=undo.UNDO_DAYS + 1))

    @contextmanager
    def finish_undo(table: TargetTable) -> Iterator[None]:
        batch.update(state=State.UNDONE, can_undo=False)
        yield

    monkeypatch.setattr(Tables, "lock", staticmethod(finish_undo))
    undo.expire()
    assert (batch.get().state, batch.get().error) == (State.UNDONE, "")


@pytest.mark.django_db
def test_prune_deletes_the_subjects_of_an_undone_import(write: Write) -> None:
    undo.undo(batch_id=complaints(write, {(0, 0): 1}), by="ann")
    assert ComplaintSubject.objects.exists()
    call_command("prune", stdout=StringIO())
    assert not ComplaintSubject.objects.exists()
