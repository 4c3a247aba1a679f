"""The bulk loader: exact counts, no row touched in vain, and what is committed stays committed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count

from accounts import turns
from lookup.datasets import bulk
from lookup.datasets.bulk import Counts
from lookup.datasets.complaints import COMPLAINTS
from lookup.datasets.contacts import CONTACTS
from lookup.models import ComplaintDay, Contact

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FIRST = 12_125_550_000


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SQLITE_PAUSE_S", 0)


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


def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many contacts another connection would have seen after each transaction of a merge on SQLite."""
    seen: list[int] = []
    monkeypatch.setattr(bulk, "let_others_write", lambda: seen.append(Contact.objects.count()))
    return seen


def test_on_sqlite_no_transaction_holds_more_than_5000_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = transactions(monkeypatch)
    assert bulk.upsert(table=CONTACTS, rows=contacts(10_001)).added == Contact.objects.count() == 10_001
    assert seen == ([] if connection.vendor == "postgresql" else [5_000, 10_000, 10_001])


def test_rows_of_one_number_change_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "CHUNK_ROWS", 4)
    days = [date(2026, 3, day) for day in range(1, 4)]
    old = [(FIRST + i, "import", day, 1, 0, 1) for i in range(4) for day in days]
    new = [(number, source, day, 2, 0, 1) for number, source, day, *_ in old]
    bulk.upsert(table=COMPLAINTS, rows=old)
    mixed: list[int] = []

    def look() -> None:
        numbers = ComplaintDay.objects.values("number").annotate(kinds=Count("total", distinct=True))
        mixed.extend(row["number"] for row in numbers if row["kinds"] > 1)

    monkeypatch.setattr(bulk, "let_others_write", look)
    assert bulk.upsert(table=COMPLAINTS, rows=new).changed == 12
    assert mixed == []


def test_a_number_with_more_rows_than_a_transaction_holds_is_merged_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "CHUNK_ROWS", 2)
    rows = [(FIRST, "import", date(2026, 3, day), 1, 0, 1) for day in range(1, 8)]
    assert bulk.upsert(table=COMPLAINTS, rows=rows).added == ComplaintDay.objects.count() == 7


@pytest.mark.django_db(transaction=True)
def test_a_reader_that_fails_half_way_leaves_all_as_it_was() -> None:
    def breaks_off() -> Iterator[tuple[Any, ...]]:
        yield from contacts(5_002)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        bulk.upsert(table=CONTACTS, rows=breaks_off())
    assert not Contact.objects.exists()
    assert bulk.upsert(table=CONTACTS, rows=contacts(5_002)) == Counts(added=5_002)


@pytest.mark.django_db(transaction=True)
def test_a_merge_that_breaks_off_leaves_whole_batches_or_nothing_and_goes_on_when_called_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "let_others_write", lambda: 1 / 0)
        patch.setattr(bulk, "_stamp", lambda table: 1 / 0 if connection.vendor == "postgresql" else stamp(table))
        with pytest.raises(ZeroDivisionError):
            bulk.upsert(table=CONTACTS, rows=contacts(5_002))
    done = Contact.objects.count()
    assert done == (0 if connection.vendor == "postgresql" else 5_000)
    assert bulk.upsert(table=CONTACTS, rows=contacts(5_002)) == Counts(added=5_002 - done, unchanged=done)


stamp = bulk._stamp


def test_no_temporary_table_is_left_behind() -> None:
    for _ in range(2):
        bulk.upsert(table=CONTACTS, rows=contacts(3))
    with bulk.workbench() as bench:
        bench.fill("given", {"number": "bigint"}, [(1,)])
        assert bench.count("given") == 1
    with bulk.workbench() as bench:
        bench.fill("given", {"number": "bigint"}, [])
        assert bench.count("given") == 0


def test_nothing_to_write_writes_nothing() -> None:
    assert bulk.upsert(table=CONTACTS, rows=[]) == Counts()


def test_delete_takes_the_named_rows_only() -> None:
    bulk.upsert(table=CONTACTS, rows=contacts(5_003))
    assert bulk.delete(model=Contact, keys=range(FIRST, FIRST + 5_002)) == 5_002
    assert Contact.objects.get().number == FIRST + 5_002


@pytest.mark.parametrize(
    "name",
    ["back\\slash", "tab\there", "line\nbreak", "return\r", "\\.", 'quo"te', "\\N", "", "100% %s", "名前", "it's"],
)
def test_text_arrives_as_it_was_sent(name: str) -> None:
    bulk.upsert(table=CONTACTS, rows=[(FIRST, name, name)])
    assert Contact.objects.values_list("name", "location").get() == (name, name)
