"""What is recorded about imports, and for how long."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from core.history import command_actor
from core.hooks import Hook
from phonebook.imports import batches
from phonebook.models import ImportBatch
from tests.phonebook.commands.imports import Ran
from tests.phonebook.imports.loading import FIRST, Write, contacts, names

State = ImportBatch.State


@pytest.mark.django_db
def test_imports_are_recorded_and_dry_runs_are_not(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(f"number,name,location\n{FIRST},Ann,\n12,Bob,\n{FIRST},Cid,\n", "people.csv")
    Ran("import_contacts", path, "--dry-run")
    assert not ImportBatch.objects.exists()
    Ran("import_contacts", path, "--region", "US")
    batch = ImportBatch.objects.get()
    assert (batch.kind, batch.state, batch.by, batch.file_name) == (
        "contacts",
        State.DONE,
        command_actor(),
        "people.csv",
    )
    assert (batch.counts["read"], batch.counts["added"], batch.options) == (3, 1, {"region": "US"})
    assert [(row["line"], row["reason"]) for row in batch.faults][1] == (4, "repeats an earlier row")
    assert batch.finished_at
    Ran("import_contacts", write("number,name\n12,Bob\n"))
    failed = ImportBatch.objects.latest("pk")
    assert (failed.state, failed.can_undo, len(failed.faults)) == (State.FAILED, False, 1)
    assert failed.error.endswith("no valid row.")


@pytest.mark.django_db
def test_prune_deletes_rejected_rows_and_later_the_batch(write: Write) -> None:
    batch = ImportBatch.objects.filter(pk=contacts(write, {0: "Ann"}))
    now = datetime.now(UTC)
    batch.update(created_at=now - timedelta(days=batches.FAULT_DAYS - 1), faults=[{"line": 1}])
    call_command("prune", stdout=StringIO())
    assert batch.get().faults == [{"line": 1}]
    batch.update(created_at=now - timedelta(days=batches.FAULT_DAYS + 1))
    call_command("prune", stdout=StringIO())
    assert batch.get().faults == []
    batch.update(created_at=now - timedelta(days=401))
    call_command("prune", stdout=StringIO())
    assert not batch.exists()


@pytest.mark.django_db
def test_import_cannot_be_undone_if_nothing_stores_changes(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHANGE_STORES", Hook[str]())
    contacts(write, {0: "Ann"})
    batch = ImportBatch.objects.get(pk=contacts(write, {0: "Bob"}))
    assert (batch.can_undo, batch.counts["changed"], names()) == (False, 1, {0: "Bob"})
