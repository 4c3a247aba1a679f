"""`import_complaints`: how files, days and stored complaints are combined."""

import gzip
from datetime import date
from typing import Any

import pytest

from phonebook.models import ComplaintDay, ComplaintSubject
from tests.phonebook.commands.imports import JANE, TODAY, Ran, complaint_days

pytestmark = pytest.mark.django_db


def table(*rows: tuple[str, str, str]) -> str:
    """Rows of number, day, subject."""
    lines = (f"1{number},{day},1,{about}" for number, day, about in rows)
    return "\n".join(["number,day,total,subject", *lines]) + "\n"


def test_imported_day_replaces_only_that_day(file: Any) -> None:
    days = ["2026-03-05", "2026-03-06"]
    Ran("import_complaints", file(table(*[(f"212555014{n}", day, "Other") for n in (2, 3) for day in days])))
    ran = Ran("import_complaints", file(table(("2125550144", days[0], "Other"))), "--json")
    assert ran.counts() == {"added": 1, "removed": 2}
    assert [row[:3] for row in complaint_days()] == [
        (12125550142, "import", date(2026, 3, 6)),
        (12125550143, "import", date(2026, 3, 6)),
        (12125550144, "import", date(2026, 3, 5)),
    ]


@pytest.mark.django_db(transaction=True)
def test_same_file_given_twice_is_refused(file: Any) -> None:
    text = table(("2125550142", "2026-03-05", "Other"))
    one, copy = file(text, "a.csv"), file(gzip.compress(text.encode()), "copy.csv.gz")
    ran = Ran("import_complaints", one, copy)
    assert str(ran.error) == f"{copy}: the file has the same content as {one}. Nothing was changed."
    assert not ComplaintDay.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_loss_of_most_of_a_day_is_refused_unless_allowed(file: Any) -> None:
    def half(first: int) -> list[tuple[str, str, str]]:
        return [(f"21255501{n:02}", "2026-03-05", "Other") for n in range(first, first + 20)]

    Ran("import_complaints", file(table(*half(0))))
    path = file(table(*half(20)), "other half")
    ran = Ran("import_complaints", path)
    assert "import 2026-03-05 would lose 20 of its 20 numbers" in str(ran.error)
    assert "--allow-loss. Nothing was changed." in str(ran.error)
    assert {row[0] for row in complaint_days()} == {12125550100 + n for n in range(20)}
    assert "would lose 20 of its 20 numbers" in str(Ran("import_complaints", path, "--dry-run").error)
    assert "  import 2026-03-05: complaints: 20, before: 20" in Ran("import_complaints", path, "--allow-loss").out
    assert {row[0] for row in complaint_days()} == {12125550120 + n for n in range(20)}
    both = [file(table(*half(0)), "a"), file(table(*half(20)), "b")]
    assert Ran("import_complaints", *both, "--json").counts() == {"added": 20, "unchanged": 20}


def test_full_is_for_block_lists(file: Any) -> None:
    ran = Ran("import_complaints", file(table(("2125550142", "2026-03-05", "Other"))), "--full")
    assert "--full is for block lists" in str(ran.error)


def test_complaints_count_without_subjects_beyond_the_limit(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phonebook.imports.complaints.MAX_SUBJECTS", 2)
    rows = [(f"212555014{n}", "2026-03-05", f"Subject {n}") for n in range(5)]
    Ran("import_complaints", file(table(*rows[:1])))
    assert Ran("import_complaints", file(table(*rows)), "--json").counts() == {"added": 4, "unchanged": 1}
    assert [row[5] for row in complaint_days()] == ["Subject 0", "Subject 1", None, None, None]
    assert ComplaintSubject.objects.count() == 2


def test_most_frequent_new_subjects_are_stored_and_counted(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phonebook.imports.complaints.MAX_SUBJECTS", 1)
    day = "2026-03-05"
    Ran("import_complaints", file(table(("2125550142", day, ""), ("2125550143", day, ""))))
    path = file(table(("2125550142", day, "Rare")) + f"12125550143,{day},2,Usual\n")
    dry = Ran("import_complaints", path, "--dry-run", "--json").counts()
    assert Ran("import_complaints", path, "--json").counts() == dry == {"changed": 1, "unchanged": 1}
    assert [row[5] for row in complaint_days()] == [None, "Usual"]


def test_dry_run_counts_the_same_and_adds_no_subject(file: Any) -> None:
    Ran("import_complaints", file(table(("2125550142", "2026-03-05", "Old"), ("2125550143", "2026-03-05", ""))))
    before = complaint_days()
    path = file(table(("2125550142", "2026-03-05", "New"), ("2125550144", "2026-03-05", "Other")))
    dry = Ran("import_complaints", path, "--dry-run", "--json").counts()
    assert dry == {"added": 1, "changed": 1, "removed": 1}
    assert complaint_days() == before
    assert ComplaintSubject.objects.count() == 1
    assert Ran("import_complaints", path, "--json").counts() == dry


def test_total_of_0_removes_the_count(file: Any) -> None:
    Ran("import_complaints", file(f"number,day,total\n{JANE},{TODAY},3\n"))
    assert Ran("import_complaints", file(f"number,day,total\n{JANE},{TODAY},0\n"), "--json").counts() == {"removed": 1}


@pytest.mark.parametrize("source", ["", "s" * 33])
def test_invalid_source_is_refused(file: Any, source: str) -> None:
    ran = Ran("import_complaints", file("number,day,total\n12125550142,2026-01-31,3\n"), "--source", source)
    assert "--source" in str(ran.error)
    assert not ComplaintDay.objects.exists()
