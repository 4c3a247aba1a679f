"""Staging tables: text arrives unchanged, and no table is left behind. Merges: exact counts, no needless writes, and
committed rows stay committed."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count

from core.db import fetch
from phonebook.imports import staging
from phonebook.imports.complaints import COMPLAINTS
from phonebook.imports.staging import NOT_DELETED, Counts, Tables, TargetTable
from phonebook.models import ComplaintDay, Contact, ImportBatch

pytestmark = pytest.mark.django_db

#: Imports of contacts derive a further column, `book`, which no file has.
CONTACTS = TargetTable(Contact, key=("number",), values=("name", "location"), stamp="updated_at")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FIRST = 12_125_550_000


def contacts(count: int, name: str = "Jane Doe") -> list[tuple[Any, ...]]:
    return [(FIRST + i, name, "") for i in range(count)]


def upsert(table: TargetTable, rows: Iterable[tuple[Any, ...]]) -> Counts:
    columns, counts = (*table.key, *table.values), Counts()
    types = {column: str(table.model._meta.get_field(column).db_type(connection)) for column in columns}
    with Tables() as tables:
        tables.fill("staged", types, rows)
        with tables.lock(table):
            tables.derive("merged", f"SELECT {', '.join(columns)}, {NOT_DELETED} FROM staged ORDER BY {table.key[0]}")
            tables.compare(table, counts)
            tables.merge(table, counts, ImportBatch.objects.create(can_undo=True))
    return counts


def test_only_changed_rows_get_a_new_timestamp() -> None:
    Contact.objects.create(number=FIRST, name="Jane Doe")
    Contact.objects.create(number=FIRST + 1, name="John Doe")
    Contact.objects.update(updated_at=LONG_AGO)
    upsert(CONTACTS, contacts(2))
    same, other = Contact.objects.order_by("number")
    assert same.updated_at == LONG_AGO
    assert (datetime.now(UTC) - other.updated_at).total_seconds() < 60


def test_rows_of_one_number_change_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_ROWS", 2)  # fewer than a number's rows
    days = [date(2026, 3, day) for day in range(1, 4)]
    old = [(FIRST + i, "import", day, 1, 0, 1) for i in range(4) for day in days]
    new = [(number, source, day, 2, 0, 1) for number, source, day, *_ in old]
    upsert(COMPLAINTS, old)
    mixed: list[int] = []

    def look() -> None:
        numbers = ComplaintDay.objects.values("number").annotate(kinds=Count("total", distinct=True))
        mixed.extend(row["number"] for row in numbers if row["kinds"] > 1)

    monkeypatch.setattr(staging, "yield_to_writers", look)
    assert upsert(COMPLAINTS, new).changed == 12
    assert mixed == []


@pytest.mark.parametrize(
    "name",
    ["back\\slash", "tab\there", "line\nbreak", "return\r", "\\.", 'quo"te', "\\N", "", "100% %s", "名前", "it's"],
)
def test_text_arrives_unchanged(name: str) -> None:
    with Tables() as tables:
        tables.fill("staged", {"name": "text", "location": "text"}, [(name, name)])
        assert fetch("SELECT name, location FROM staged") == [(name, name)]
