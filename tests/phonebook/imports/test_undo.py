"""An undo restores exactly what its import changed, unless it was changed since; imports, undos and edits at the same
time lose nothing; and what was undone can be imported again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonebook.imports import undo
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import Import
from phonebook.imports.undo import UndoResult
from phonebook.models import ComplaintDay, ComplaintSubject, Contact, Dataset, ImportBatch, ImportChange

FIRST = 12_125_550_100
TODAY = datetime.now(UTC).date()
State = ImportBatch.State
Write = Callable[..., str]


def load(importer: Import, path: str) -> int:
    """Import the file. Returns its batch."""
    importer.run([open_text(path)])
    assert importer.batch
    return importer.batch.pk


def contacts(write: Write, rows: dict[int, str]) -> int:
    lines = [f"{FIRST + n},{name},Chicago\n" for n, name in rows.items()]
    path = write("number,name,location\n" + "".join(lines))
    return load(ContactImport(on_reject=lambda *row: None), path)


def complaints(write: Write, rows: dict[tuple[int, int], int]) -> int:
    lines = [f"{FIRST + n},{TODAY - timedelta(days=age)},{total},Subject {total}\n" for (n, age), total in rows.items()]
    path = write("number,day,total,subject\n" + "".join(lines))
    return load(ComplaintImport(on_reject=lambda *row: None, today=TODAY, allow_loss=True), path)


def block_list(write: Write, version: int, votes: dict[int, int], *, full: bool = False) -> int:
    entries = ",".join(f'{{"phone":"+{FIRST + n}","rating":"G_FRAUD","votes":{count}}}' for n, count in votes.items())
    path = write(f'{{"numbers":[{entries}],"version":{version}}}', "list.json")
    importer = ComplaintImport(on_reject=lambda *row: None, today=TODAY, full=full, allow_loss=True)
    return load(importer, path)


def stored(*fields: str) -> list[Any]:
    """All rows, with all columns but the primary key."""
    names = ("number", "name", "location", "book", "updated_at", "import_batch")
    days = ("number", "source", "day", "total", "robocalls", "subject__text", "import_batch")
    return [
        *Contact.objects.order_by("number").values(*names),
        *ComplaintDay.objects.order_by("number", "day").values(*days),
    ]


def names() -> dict[int, str]:
    return {row.number - FIRST: row.name for row in Contact.objects.order_by("number")}


def edit(n: int, name: str) -> None:
    """As the console does it."""
    Contact.objects.update_or_create(number=FIRST + n, defaults={"name": name, "book": None, "import_batch": None})


def undone(batch_id: int) -> UndoResult:
    """Undo the import, if it changed anything."""
    if undo.problem(ImportBatch.objects.get(pk=batch_id)) == "It changed nothing.":
        return UndoResult()
    expected = undo.preview(batch_id=batch_id)
    assert undo.undo(batch_id=batch_id, by="ann") == expected
    return expected


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def write(file: Any) -> Write:
    def written(text: str, name: str = "rows.csv") -> str:
        path: str = file(text, name)
        return path

    return written


# --- Any sequence ----------------------------------------------------------------------------------------------------

ROWS = st.dictionaries(st.integers(0, 5), st.sampled_from(["Ann", "Bob", "Cid"]), min_size=1)
EDITS = st.dictionaries(st.integers(0, 5), st.sampled_from(["Eve", "Ann", None]))
DAYS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 2)), st.integers(1, 3), min_size=1)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.django_db
@quick
@given(first=ROWS, second=ROWS, edits=EDITS)
def test_undo_restores_all_that_was_not_edited_since(
    write: Write, first: dict[int, str], second: dict[int, str], edits: dict[int, str | None]
) -> None:
    with rolled_back():
        Contact.objects.create(number=FIRST, name="Own", location="Berlin", book="office")
        before_first = stored()
        one = contacts(write, first)
        before_second = stored()
        two = contacts(write, second)
        undone(two)
        assert stored() == before_second
        two = contacts(write, second)
        for n, name in edits.items():
            Contact.objects.filter(number=FIRST + n).delete() if name is None else edit(n, name)
        edited = {number: name for number, name in names().items() if number in edits}
        undone(two)
        assert {n: name for n, name in names().items() if n in edits} == edited
        kept = [row for row in before_second if row["number"] - FIRST not in edits]
        assert [row for row in stored() if row["number"] - FIRST not in edits] == kept
        undone(one)
        kept = [row for row in before_first if row["number"] - FIRST not in edits]
        assert [row for row in stored() if row["number"] - FIRST not in edits] == kept
        assert {n: name for n, name in names().items() if n in edits} == edited


@pytest.mark.django_db
@quick
@given(first=DAYS, second=DAYS)
def test_undo_of_complaints_restores_days_and_subjects(
    write: Write, first: dict[tuple[int, int], int], second: dict[tuple[int, int], int]
) -> None:
    with rolled_back():
        before_first = stored()
        one = complaints(write, first)
        before_second = stored()
        two = complaints(write, second)
        undone(two)
        assert stored() == before_second
        undone(one)
        assert stored() == before_first
        assert not ComplaintSubject.objects.exists()
        assert not ImportChange.objects.exists()


@pytest.mark.django_db
@quick
@given(
    lists=st.lists(
        st.tuples(st.dictionaries(st.integers(0, 4), st.integers(0, 2), min_size=1), st.booleans()), max_size=4
    ),
)
def test_undone_block_lists_can_be_imported_again(write: Write, lists: list[tuple[dict[int, int], bool]]) -> None:
    with rolled_back():
        states, batch_ids = [], []
        for version, (votes, full) in enumerate(lists, start=1):
            states.append((stored(), list(Dataset.objects.values())))
            batch_ids.append(block_list(write, version, votes, full=full))
        for batch_id, state in reversed(list(zip(batch_ids, states, strict=True))):
            undone(batch_id)
            assert (stored(), list(Dataset.objects.values())) == state
        for version, (votes, full) in enumerate(lists, start=1):
            block_list(write, version, votes, full=full)
