"""Imports record the newest day of each published data set."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from phonebook.imports import data_sets
from phonebook.imports.data_sets import ComplaintData
from phonebook.models import Dataset
from tests.phonebook.commands.imports import JANE, Ran

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 9, 14, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_sets, "published", lambda: ["ftc", "fcc"])


def csv(*rows: tuple[str, str]) -> str:
    """Rows of source and day."""
    return "number,day,total,source\n" + "".join(f"{JANE},{day},1,{source}\n" for source, day in rows)


def ages() -> list[tuple[str, date, int]]:
    return [(each.source, each.newest, each.age_days) for each in data_sets.loaded(NOW)]


def test_import_records_the_newest_day_of_each_source(file: Any) -> None:
    path = file(csv(("ftc", "2026-03-05"), ("ftc", "2026-03-04"), ("fcc", "2026-03-10"), ("own", "2026-03-09")))
    Ran("import_complaints", path, "--dry-run")
    assert ages() == []
    Ran("import_complaints", path)
    assert ages() == [("ftc", date(2026, 3, 5), 4), ("fcc", date(2026, 3, 10), 0)]
    assert not Dataset.objects.filter(name__contains="own").exists()


def test_older_file_does_not_age_the_data_set(file: Any) -> None:
    for day in ("2026-03-05", "2026-03-02"):
        Ran("import_complaints", file(csv(("ftc", day))))
    assert ages() == [("ftc", date(2026, 3, 5), 4)]


def test_block_list_is_as_old_as_its_last_import() -> None:
    Dataset.objects.create(name="list fcc", version="42", rows=1, loaded_at=NOW - timedelta(days=3))
    assert data_sets.loaded(NOW) == [ComplaintData("fcc", date(2026, 3, 6), NOW - timedelta(days=3), 3)]
