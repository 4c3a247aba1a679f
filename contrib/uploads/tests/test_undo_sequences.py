"""Imports, undos and edits in any sequence: in the end the table is what the edits left."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contrib.uploads.models import ImportChange
from contrib.uploads.tests.undoing import undone
from contrib.uploads.undo import CannotUndo
from phonebook.models import ComplaintDay, Contact, Dataset, ImportBatch
from tests.phonebook.imports.loading import FIRST, Write, block_list, complaints, contacts, edit, names, stored


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


ROWS = st.dictionaries(st.integers(0, 5), st.sampled_from(["Ann", "Bob", "Cid"]), min_size=1)
EDITS = st.dictionaries(st.integers(0, 5), st.sampled_from(["Eve", "Ann", None]))
DAYS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 2)), st.integers(1, 3), min_size=1)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


ORDER = st.permutations(range(4))


def undo_all(batch_ids: list[int], order: list[int]) -> None:
    """Undo the imports in this order, as far as it is allowed, and then again. What is refused changes nothing."""
    left = [batch_ids[n] for n in order if n < len(batch_ids)]
    while left:
        allowed = []
        for batch_id in left:
            before = stored(), list(ImportBatch.objects.values()), list(Dataset.objects.values())
            try:
                undone(batch_id)
                allowed.append(batch_id)
            except CannotUndo as error:
                later = str(error).removeprefix("Import ").removesuffix(" came later: undo it first.")
                assert int(later) in batch_ids[batch_ids.index(batch_id) + 1 :]
                assert (stored(), list(ImportBatch.objects.values()), list(Dataset.objects.values())) == before
        assert allowed
        left = [batch_id for batch_id in left if batch_id not in allowed]


@pytest.mark.django_db
@quick
@given(steps=st.lists(st.tuples(ROWS, EDITS), min_size=1, max_size=4), order=ORDER)
def test_what_remains_after_all_undos_is_what_edits_left(
    write: Write, steps: list[tuple[dict[int, str], dict[int, str | None]]], order: list[int]
) -> None:
    with rolled_back():
        Contact.objects.create(number=FIRST, name="Own", location="Berlin", book="office")
        before, edited, batch_ids = stored(), dict[int, str | None](), []
        for rows, edits in steps:
            batch_ids.append(contacts(write, rows))
            for n, name in edits.items():
                Contact.objects.filter(number=FIRST + n).delete() if name is None else edit(n, name)
            # A row that a later import overwrites is restored as it was edited.
            edited |= edits
        undo_all(batch_ids, order)
        assert [row for row in stored() if row["number"] - FIRST not in edited] == [
            row for row in before if row["number"] - FIRST not in edited
        ]
        assert {n: name for n, name in names().items() if n in edited} == {
            n: name for n, name in edited.items() if name is not None
        }


@pytest.mark.django_db
@quick
@given(imports=st.lists(DAYS, min_size=1, max_size=4), order=ORDER)
def test_no_complaints_remain_after_all_undos(
    write: Write, imports: list[dict[tuple[int, int], int]], order: list[int]
) -> None:
    with rolled_back():
        before = stored()
        undo_all([complaints(write, rows) for rows in imports], order)
        assert stored() == before
        assert not ImportChange.objects.exists()


@pytest.mark.django_db
@quick
@given(
    first=st.dictionaries(st.integers(0, 4), st.integers(0, 2), min_size=1),
    second=st.dictionaries(st.integers(0, 4), st.integers(0, 2), min_size=1),
    order=ORDER,
)
def test_no_row_of_block_lists_remains_after_all_undos(
    write: Write, first: dict[int, int], second: dict[int, int], order: list[int]
) -> None:
    with rolled_back():
        ids = [block_list(write, version, votes) for version, votes in enumerate([first, second, first], start=1)]
        undo_all(ids, order)
        assert not ComplaintDay.objects.exists()


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
