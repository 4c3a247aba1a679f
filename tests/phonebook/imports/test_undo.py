"""An undo restores exactly what its import changed, unless it was changed since; imports, undos and edits at the same
time lose nothing; and what was undone can be imported again."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callerid_project import erasure
from core.history import command_actor
from phonebook.imports import batches, staging, undo
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import Import
from phonebook.imports.refresh import refresh
from phonebook.imports.undo import CannotUndo, UndoResult
from phonebook.models import ComplaintDay, ComplaintSubject, Contact, Dataset, ImportBatch, ImportChange
from tests import plugin
from tests.phonebook.commands.imports import Ran
from tests.phonebook.refreshing import Publishers
from tests.phonebook.refreshing import stored as rows_by_day

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


# --- What stands since -----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_rows_of_a_later_import_are_left_and_listed(write: Write) -> None:
    contacts(write, {0: "Ann", 1: "Ann", 2: "Ann"})
    one = contacts(write, {0: "Bob", 1: "Bob", 2: "Bob", 3: "Bob", 4: "Bob"})
    two = contacts(write, {0: "Cid", 3: "Cid"})
    edit(1, "Eve")
    assert undo.undo(batch_id=one, by="ann") == UndoResult(restored=1, deleted=1, left=3)
    assert names() == {0: "Cid", 1: "Eve", 2: "Ann", 3: "Cid"}
    assert undo.left(ImportBatch.objects.get(pk=one)) == [
        (FIRST, f"changed by import {two}"),
        (FIRST + 1, "changed in the console or by an address book"),
    ]
    with pytest.raises(CannotUndo, match="It was undone"):
        undo.undo(batch_id=one, by="ann")


@pytest.mark.django_db
def test_undone_days_can_be_refreshed_again(publishers: Publishers) -> None:
    day = TODAY - timedelta(days=max(0, TODAY.isoweekday() - 5))
    publishers.publish_ftc(str(day))
    publishers.publish_fcc(TODAY)
    for _ in range(2):
        results = dict(refresh(["ftc", "fcc"], today=TODAY))
        assert [results[source].added for source in ("ftc", "fcc")] == [20, 20]
        for batch in ImportBatch.objects.filter(state=State.DONE):
            undo.undo(batch_id=batch.pk, by="ann")
        assert not rows_by_day("ftc")
        assert not Dataset.objects.exists()


@pytest.mark.django_db
def test_undo_under_a_later_list_asks_for_its_changes_again(write: Write) -> None:
    one = block_list(write, 1, {0: 1, 1: 1})
    block_list(write, 2, {1: 2})
    undo.undo(batch_id=one, by="ann")
    assert Dataset.objects.get().version == "0"
    block_list(write, 1, {0: 1, 1: 1})
    assert ComplaintDay.objects.count() == 2


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


# --- What is recorded ------------------------------------------------------------------------------------------------


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
    assert undo.problem(failed) == "It changed nothing."


@pytest.mark.django_db
def test_large_changes_are_not_stored(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_CHANGES", 1)
    monkeypatch.setattr(undo, "MAX_CHANGES", 1)
    one = contacts(write, {0: "Ann", 1: "Ann"})
    two = contacts(write, {0: "Bob", 1: "Bob"})
    assert not ImportChange.objects.exists()
    with pytest.raises(CannotUndo, match="It changed or removed more than 1 rows"):
        undo.preview(batch_id=two)
    assert undo.undo(batch_id=one, by="ann") == UndoResult(left=2)


@pytest.mark.django_db
def test_prune_deletes_what_an_undo_needs_and_later_the_rest(write: Write) -> None:
    contacts(write, {0: "Ann"})
    two = contacts(write, {0: "Bob"})
    batch = ImportBatch.objects.filter(pk=two)
    call_command("prune", stdout=StringIO())
    assert ImportChange.objects.exists()
    now = datetime.now(UTC)
    batch.update(created_at=now - timedelta(days=batches.UNDO_DAYS + 1), faults=[{"line": 1}])
    call_command("prune", stdout=StringIO())
    assert not ImportChange.objects.exists()
    assert (batch.get().can_undo, batch.get().faults) == (False, [])
    assert undo.problem(batch.get()) == "Imports can be undone for 30 days."
    batch.update(created_at=now - timedelta(days=401))
    call_command("prune", stdout=StringIO())
    assert not batch.exists()


# --- Interruptions ---------------------------------------------------------------------------------------------------


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
        assert (batch.can_undo, batch.error) == (False, "Interrupted.")
    else:
        assert (batch.can_undo, batch.error) == (True, "Interrupted. 4 rows were written.")
        undo.undo(batch_id=batch.pk, by="ann")
    assert stored() == before


# --- At once ---------------------------------------------------------------------------------------------------------


def in_thread(function: Callable[[], Any]) -> Any:
    try:
        return function()
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_two_undos_at_once_do_it_once(write: Write) -> None:
    contacts(write, dict.fromkeys(range(5), "Ann"))
    two = contacts(write, dict.fromkeys(range(10), "Bob"))

    def run() -> UndoResult | None:
        try:
            return undo.undo(batch_id=two, by="ann")
        except CannotUndo:
            return None

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(in_thread, [run, run]))
    assert sorted(map(str, results)) == sorted(map(str, [UndoResult(restored=5, deleted=5), None]))
    assert set(names().values()) == {"Ann"}


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_edits_and_searches_beside_imports_and_undos(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was edited last is there after everything is undone, whether the edit came before or after an import."""
    monkeypatch.setattr(staging, "CHUNK_ROWS", 20)
    count, rounds = 200, 6
    contacts(write, dict.fromkeys(range(0, count, 2), "Ann"))
    done, edited = threading.Event(), dict[int, str]()

    def import_and_undo() -> None:
        try:
            for _ in range(rounds):
                undo.undo(batch_id=contacts(write, dict.fromkeys(range(count), "Bob")), by="ann")
        finally:
            done.set()

    def edit_some() -> None:
        chosen = random.Random(1)
        while not done.is_set():
            n = chosen.randrange(count)
            edited[n] = f"Eve {chosen.random()}"
            edit(n, edited[n])

    def search() -> None:
        while not done.is_set():
            for name in names().values():
                assert name in ("Ann", "Bob") or name.startswith("Eve")

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(in_thread, [import_and_undo, edit_some, search]))
    assert edited
    assert names() == dict.fromkeys(range(0, count, 2), "Ann") | edited
