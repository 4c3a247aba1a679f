"""An undo restores exactly what its import changed, unless it was changed since; an interrupted one continues."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from console import erasure
from contrib.uploads import undo
from contrib.uploads.undo import CannotUndo, UndoResult
from phonebook.imports import batches, staging
from phonebook.models import ComplaintDay, Contact, Dataset, ImportBatch
from tests import plugin
from tests.phonebook.commands.imports import Ran
from tests.phonebook.imports.loading import FIRST, Write, block_list, contacts, edit, names, stored

State = ImportBatch.State


@pytest.mark.django_db
@pytest.mark.parametrize("rows", [{1: "Bob"}, {0: "Ann"}], ids=["changed", "unchanged"])
def test_undo_is_refused_under_an_import_that_met_rows(write: Write, rows: dict[int, str]) -> None:
    one = contacts(write, {0: "Ann", 1: "Ann"})
    two = contacts(write, rows)
    before = stored()
    for refused in (undo.preview, partial(undo.undo, by="ann")):
        with pytest.raises(CannotUndo, match=f"^Import {two} came later: undo it first.$"):
            refused(batch_id=one)
    assert stored() == before
    undo.undo(batch_id=two, by="ann")
    assert undo.undo(batch_id=one, by="ann") == UndoResult(deleted=2)
    assert not Contact.objects.exists()


@pytest.mark.django_db
def test_undo_is_allowed_under_an_import_of_other_rows(write: Write) -> None:
    contacts(write, {2: "Ann"})
    one = contacts(write, {0: "Bob", 1: "Bob"})
    contacts(write, {2: "Cid", 3: "Cid"})
    assert undo.undo(batch_id=one, by="ann") == UndoResult(deleted=2)
    assert names() == {2: "Cid", 3: "Cid"}


@pytest.mark.django_db
def test_rows_that_an_import_removed_and_another_added(write: Write) -> None:
    block_list(write, 1, {0: 1})
    two = block_list(write, 2, {0: 0})
    three = block_list(write, 3, {0: 2})
    with pytest.raises(CannotUndo, match=f"Import {three} came later"):
        undo.undo(batch_id=two, by="ann")
    undo.undo(batch_id=three, by="ann")
    undo.undo(batch_id=two, by="ann")
    assert ComplaintDay.objects.get().total == 1


@pytest.mark.django_db
def test_rows_that_were_changed_since_are_left_and_listed(write: Write) -> None:
    contacts(write, {0: "Ann", 1: "Ann", 2: "Ann"})
    one = contacts(write, {0: "Bob", 1: "Bob", 2: "Bob", 3: "Bob", 4: "Bob"})
    edit(0, "Eve")
    Contact.objects.filter(number__in=[FIRST + 1, FIRST + 3]).delete()
    two = contacts(write, {1: "Cid", 3: "Cid"})
    expected = undo.would_leave(batch_id=one)
    assert undo.undo(batch_id=one, by="ann") == UndoResult(restored=1, deleted=1, left=3)
    assert names() == {0: "Eve", 1: "Cid", 2: "Ann", 3: "Cid"}
    assert (
        expected
        == undo.left(ImportBatch.objects.get(pk=one))
        == [
            (FIRST, "changed in the console or by an address book"),
            (FIRST + 1, f"changed by import {two}"),
        ]
    )
    with pytest.raises(CannotUndo, match="It was undone"):
        undo.undo(batch_id=one, by="ann")


@pytest.mark.django_db
def test_undo_under_a_later_list_asks_for_its_changes_again(write: Write) -> None:
    one = block_list(write, 1, {0: 1, 1: 1})
    block_list(write, 2, {2: 2})
    undo.undo(batch_id=one, by="ann")
    assert Dataset.objects.get().version == "0"
    block_list(write, 1, {0: 1, 1: 1})
    assert ComplaintDay.objects.count() == 3


@pytest.mark.django_db
def test_erased_numbers_are_not_restored(write: Write) -> None:
    contacts(write, {0: "Ann", 1: "Ann"})
    two = contacts(write, {0: "Bob", 1: "Bob"})
    Ran("import_contacts", write(f"number,name\n{FIRST},\n", f"{FIRST}.csv"))
    assert ImportBatch.objects.filter(file_name=f"{FIRST}.csv").get().faults[0]["number"]
    erased = erasure.erase([str(FIRST)], block=True)
    assert (erased["import_changes"], erased["imports"]) == (1, 1)
    assert not ImportBatch.objects.exclude(faults=[]).exists()
    assert not ImportBatch.objects.filter(file_name__contains=str(FIRST)).exists()
    undo.undo(batch_id=two, by="ann")
    assert names() == {1: "Ann"}


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """`interrupted(module)`: its second part is the last, once."""
    monkeypatch.setattr(staging, "CHUNK_ROWS", 2)

    def interrupt(module: Any) -> None:
        parts = iter([False, True])

        def next_part() -> None:
            if next(parts, False):
                raise KeyboardInterrupt

        monkeypatch.setattr(module, "yield_to_writers", next_part)

    return interrupt


@pytest.mark.django_db
def test_interrupted_undo_continues(write: Write, interrupted: Callable[[Any], None]) -> None:
    contacts(write, dict.fromkeys(range(5), "Ann"))
    before = stored()
    two = contacts(write, dict.fromkeys(range(2, 10), "Bob"))
    edit(3, "Eve")
    edit(9, "Eve")
    interrupted(undo)
    if plugin.production():
        expected = undo.undo(batch_id=two, by="ann")
    else:
        expected = undo.preview(batch_id=two)
        with pytest.raises(KeyboardInterrupt):
            undo.undo(batch_id=two, by="ann")
        assert ImportBatch.objects.get(pk=two).state == State.UNDOING
        assert undo.undo(batch_id=two, by="ann") == expected
    assert expected == UndoResult(restored=2, deleted=4, left=2)
    assert [row for row in stored() if row["name"] != "Eve"] == [row for row in before if row["number"] != FIRST + 3]


@pytest.mark.django_db
def test_interrupted_import_can_be_undone(
    write: Write, interrupted: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    contacts(write, dict.fromkeys(range(5), "Ann"))
    before = stored()
    interrupted(staging)
    if plugin.production():  # writes all rows at once
        monkeypatch.setattr(batches, "finish", stop)
    with pytest.raises(KeyboardInterrupt):
        contacts(write, dict.fromkeys(range(2, 10), "Bob"))
    batch = ImportBatch.objects.latest("pk")
    assert batch.state == State.FAILED
    if plugin.production():
        assert (batch.can_undo, batch.error, batch.counts) == (False, "Interrupted.", {})
    else:
        assert (batch.can_undo, batch.error) == (True, "Interrupted. 4 rows were written.")
        assert (batch.counts["added"], batch.counts["changed"], batch.counts["planned"]) == (5, 3, True)
        first = ImportBatch.objects.earliest("pk")
        assert undo.problem(first).reason == f"Import {batch.pk} came later: undo it first."
        undo.undo(batch_id=batch.pk, by="ann")
    assert stored() == before
