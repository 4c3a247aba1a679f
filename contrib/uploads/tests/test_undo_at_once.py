"""Imports, undos and edits at the same time lose nothing."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any

import pytest

from console import erasure
from contrib.uploads import undo
from contrib.uploads.tests.undoing import in_thread
from contrib.uploads.undo import CannotUndo, UndoResult
from phonebook.imports import staging
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import TextFile, open_text
from phonebook.models import Contact, ImportBatch
from tests.phonebook.imports.loading import FIRST, Write, contacts, edit, names


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


@pytest.mark.django_db(transaction=True)
def test_an_import_that_waited_is_the_later_one(write: Write) -> None:
    first = write(f"number,name\n{FIRST},Ann\n")

    def files() -> Iterator[AbstractContextManager[TextFile]]:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(in_thread, lambda: contacts(write, {0: "Bob"})).result()
        yield open_text(first)

    waited = ContactImport(on_reject=lambda *row: None)
    waited.run(files())
    assert waited.batch
    other = ImportBatch.objects.latest("pk")
    assert other.pk > waited.batch.pk
    with pytest.raises(CannotUndo, match=f"Import {waited.batch.pk} came later: undo it first."):
        undo.undo(batch_id=other.pk, by="ann")
    undo.undo(batch_id=waited.batch.pk, by="ann")
    undo.undo(batch_id=other.pk, by="ann")
    assert not Contact.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_number_erased_during_an_undo_is_not_restored(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    contacts(write, dict.fromkeys(range(5), "Ann"))
    two = contacts(write, dict.fromkeys(range(5), "Bob"))
    write_part = undo._write
    with ThreadPoolExecutor(1) as pool:
        erased: list[Future[Any]] = []

        def write_and_erase(*arguments: Any) -> None:
            erased.append(pool.submit(in_thread, lambda: erasure.erase([str(FIRST)])))
            write_part(*arguments)

        monkeypatch.setattr(undo, "_write", write_and_erase)
        undo.undo(batch_id=two, by="ann")
        erased[0].result()
    assert names() == dict.fromkeys(range(1, 5), "Ann")


@pytest.mark.django_db(transaction=True)
def test_edit_between_storing_and_changing_a_row_is_later(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    contacts(write, {0: "Ann"})
    store = undo.store
    with ThreadPoolExecutor(1) as pool:
        edited: list[Future[Any]] = []

        def store_and_edit(*arguments: Any, **options: Any) -> None:
            store(*arguments, **options)
            edited.append(pool.submit(in_thread, lambda: edit(0, "Eve")))
            wait(edited, timeout=0.5)  # as long as it may take; it should wait for the import

        monkeypatch.setattr(undo, "store", store_and_edit)
        two = contacts(write, {0: "Bob"})
        edited[0].result()
    assert names() == {0: "Eve"}
    assert undo.undo(batch_id=two, by="ann") == UndoResult(left=1)
    assert names() == {0: "Eve"}


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
