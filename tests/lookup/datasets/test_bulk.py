"""The bulk loader: exact counts, no row touched in vain, and what is committed stays committed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from lookup.datasets import bulk
from lookup.datasets.bulk import Counts
from lookup.datasets.importers import CONTACTS
from lookup.models import Contact

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FIRST = 12_125_550_000


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "SQLITE_PAUSE_S", 0)


def contacts(count: int, name: str = "Jane Doe") -> list[tuple[Any, ...]]:
    return [(FIRST + i, name, "") for i in range(count)]


def test_added_changed_and_unchanged_are_counted_apart() -> None:
    Contact.objects.create(number=FIRST, name="Jane Doe")
    Contact.objects.create(number=FIRST + 1, name="John Doe")
    assert bulk.upsert(table=CONTACTS, rows=contacts(3)) == Counts(added=1, changed=1, unchanged=1)
    assert set(Contact.objects.values_list("name", flat=True)) == {"Jane Doe"}


def test_a_row_that_is_the_same_keeps_its_date_and_one_that_differs_gets_a_new_one() -> None:
    Contact.objects.create(number=FIRST, name="Jane Doe", updated_at=LONG_AGO)
    Contact.objects.create(number=FIRST + 1, name="John Doe", updated_at=LONG_AGO)
    bulk.upsert(table=CONTACTS, rows=contacts(2))
    same, other = Contact.objects.order_by("number")
    assert same.updated_at == LONG_AGO
    assert (datetime.now(UTC) - other.updated_at).total_seconds() < 60


def test_a_dry_run_counts_the_same_and_writes_nothing() -> None:
    Contact.objects.create(number=FIRST, name="John Doe", updated_at=LONG_AGO)
    assert bulk.upsert(table=CONTACTS, rows=contacts(2), dry_run=True) == Counts(added=1, changed=1)
    assert list(Contact.objects.values_list("name", "updated_at")) == [("John Doe", LONG_AGO)]
    assert bulk.upsert(table=CONTACTS, rows=contacts(2)) == Counts(added=1, changed=1)


def test_no_transaction_holds_more_than_5000_rows() -> None:
    heard: list[int] = []
    counts = bulk.upsert(table=CONTACTS, rows=contacts(10_001), progress=heard.append)
    assert heard == [5_000, 10_000, 10_001]
    assert counts.added == Contact.objects.count() == 10_001


@pytest.mark.django_db(transaction=True)
def test_a_failure_half_way_loses_no_chunk_that_was_done_and_leaves_no_half_of_one() -> None:
    def breaks_off() -> Iterator[tuple[Any, ...]]:
        yield from contacts(5_002)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        bulk.upsert(table=CONTACTS, rows=breaks_off())
    assert Contact.objects.count() == 5_000
    assert bulk.upsert(table=CONTACTS, rows=contacts(5_002)) == Counts(added=2, unchanged=5_000)


def test_nothing_to_write_writes_nothing() -> None:
    assert bulk.upsert(table=CONTACTS, rows=[]) == Counts()


def test_delete_takes_the_named_rows_only() -> None:
    bulk.upsert(table=CONTACTS, rows=contacts(5_003))
    assert bulk.delete(model=Contact, keys=range(FIRST, FIRST + 5_002)) == 5_002
    assert Contact.objects.get().number == FIRST + 5_002


@pytest.mark.parametrize("name", ["back\\slash", "tab\there", 'quo"te', "\\N", "", "100% %s", "名前", "it's"])
def test_text_arrives_as_it_was_sent(name: str) -> None:
    bulk.upsert(table=CONTACTS, rows=[(FIRST, name, name)])
    assert Contact.objects.values_list("name", "location").get() == (name, name)
