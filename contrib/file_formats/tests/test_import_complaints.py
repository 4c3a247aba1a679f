"""`import_complaints`: how rows of the FTC and the FCC, and block lists, are combined."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from lookup.answers import Found, NotFound
from lookup.connectors.tables import Complaints
from phonebook.models import ComplaintDay
from tests import awaited
from tests.phonebook.commands.imports import JANE, TODAY, Ran, complaint_days

pytestmark = pytest.mark.django_db

FTC_HEADER = (
    "Company_Phone_Number,Created_Date,Violation_Date,Consumer_City,Consumer_State,Consumer_Area_Code,Subject,"
    "Recorded_Message_Or_Robocall"
)


def ftc(*rows: tuple[str, str, str, str]) -> str:
    """Rows of number, day, subject, robocall."""
    lines = (f'{number},{day} 00:03:04,{day} 00:01:00,,,888,"{about}",{robo}' for number, day, about, robo in rows)
    return "\n".join([FTC_HEADER, *lines]) + "\n"


def test_ftc_file_makes_the_next_search_return_spam(file: Any) -> None:
    yesterday = TODAY - timedelta(days=1)
    rows = [("2125550142", str(yesterday), "Vacation  & timeshares", "Y")] * 2
    ran = Ran("import_complaints", file(ftc(*rows, ("2125550143", str(yesterday), "Other", "N"))))
    assert ran.out.splitlines() == [
        "3 rows read (FTC Do Not Call CSV): 0 rejected.",
        "Complaint days: 2 added.",
        f"  ftc {yesterday}: complaints: 3",
    ]
    assert awaited.answer_of(Complaints(), "12125550142") == Found(spam=True)
    assert awaited.answer_of(Complaints(), "12125550143") == NotFound()


def test_file_imported_twice_counts_once_and_a_later_one_adds(file: Any) -> None:
    first = file(ftc(("2125550142", "2026-03-05", "Other", "Y"), ("2125550142", "2026-03-05", "Other", "Y")), "a.csv")
    later = file(ftc(("2125550142", "2026-03-06", "Other", "N")), "b.csv")
    assert Ran("import_complaints", first, "--json").counts() == {"added": 1}
    assert Ran("import_complaints", first, "--json").counts() == {"unchanged": 1}
    assert Ran("import_complaints", later, "--json").counts() == {"added": 1}
    assert complaint_days() == [
        (JANE, "ftc", date(2026, 3, 5), 2, 2, "Other"),
        (JANE, "ftc", date(2026, 3, 6), 1, 0, "Other"),
    ]


def test_day_in_two_files_of_one_command_is_added_up(file: Any) -> None:
    one = file(ftc(("2125550142", "2026-03-05", "Other", "Y")), "a.csv")
    two = file(ftc(("2125550142", "2026-03-05", "Other", "N"), ("2125550142", "2026-03-06", "Other", "N")), "b.csv")
    ran = Ran("import_complaints", one, two)
    assert [row[2:5] for row in complaint_days()] == [(date(2026, 3, 5), 2, 1), (date(2026, 3, 6), 1, 0)]
    assert "Note: ftc 2026-03-05 is in 2 files; their rows were added up." in ran.out


def test_block_list_and_days_never_share_a_source(file: Any) -> None:
    days, a_list = file(ftc(("2125550142", "2026-03-05", "Other", "N"))), file(block_list(41, n493023125042=4), "list")
    Ran("import_complaints", days)
    assert "'ftc' has complaints by day" in str(Ran("import_complaints", a_list, "--source", "ftc").error)
    Ran("import_complaints", a_list)
    own = file(f"number,day,total,source\n{JANE},{TODAY},1,phoneblock\n", "own.csv")
    assert "'phoneblock' is the source of a block list" in str(Ran("import_complaints", own).error)
    assert {row[1] for row in complaint_days()} == {"ftc", "phoneblock"}


def test_full_list_with_an_invalid_entry_removes_nothing(file: Any) -> None:
    Ran("import_complaints", file(block_list(41, n493023125042=4, n493023125043=4)))
    entries = [{"phone": "+493023125042", "votes": 4}, {"phone": "+493023125043", "votes": "many"}]
    ran = Ran("import_complaints", file(json.dumps({"numbers": entries, "version": 42})), "--full")
    assert "1 entries name a number but are invalid" in str(ran.error)
    assert ComplaintDay.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_loss_of_most_of_a_list_is_refused_unless_allowed(file: Any) -> None:
    Ran("import_complaints", file(block_list(41, **{f"n4930231250{n:02}": 4 for n in range(100, 250)})))
    empty = file(block_list(42))
    assert "phoneblock would lose 150 of its 150 numbers" in str(Ran("import_complaints", empty, "--full").error)
    assert ComplaintDay.objects.count() == 150
    assert Ran("import_complaints", empty, "--full", "--allow-loss", "--json").counts() == {"removed": 150}


def test_an_fcc_ticket_counts_once_over_all_files(file: Any) -> None:
    header = "Ticket ID,Date of Issue,Caller ID Number,Type of Call or Messge"
    one = file(f"{header}\n1,03/05/2026,212-555-0142,Live Voice\n2,03/05/2026,212-555-0142,Prerecorded Voice\n", "a")
    two = file(f"{header}\n2,03/05/2026,212-555-0142,Prerecorded Voice\n3,03/06/2026,None,None\n", "b")
    ran = Ran("import_complaints", one, two)
    assert "4 rows read (FCC unwanted calls CSV): 1 repeated, 1 rejected." in ran.out
    assert f"{two}:2: 1********42: repeats an earlier row ({one}:3)" in ran.err
    assert [row[1:5] for row in complaint_days()] == [("fcc", date(2026, 3, 5), 2, 1)]


def test_subject_of_a_day_is_the_most_frequent_one(file: Any) -> None:
    day = "2026-03-05"
    rows = [("2125550142", day, about, "N") for about in ("Other", "Charities", "Charities", "", "", "")]
    Ran("import_complaints", file(ftc(*rows)))
    assert complaint_days() == [(JANE, "ftc", date(2026, 3, 5), 6, 0, "Charities")]


def block_list(version: int, **votes: int) -> str:
    """`n493023125042=4`: the number and its votes."""
    numbers = [{"phone": f"+{name[1:]}", "votes": count, "rating": "G_FRAUD"} for name, count in votes.items()]
    return json.dumps({"numbers": numbers, "version": version})


def test_block_list_replaces_its_numbers_and_0_votes_remove(file: Any) -> None:
    Ran("import_complaints", file(block_list(41, n493023125042=4, n493023125043=10, n493023125044=2)))
    ran = Ran("import_complaints", file(block_list(42, n493023125042=20, n493023125043=0, n493023125045=0)))
    assert "1 added, 1 removed" in ran.out or "1 changed, 1 removed" in ran.out
    assert "since=42" in ran.out
    assert [(row[0], row[1], row[3]) for row in complaint_days()] == [
        (493023125042, "phoneblock", 20),
        (493023125044, "phoneblock", 2),
    ]


def test_number_of_a_block_list_has_one_day(file: Any) -> None:
    now = datetime.now(UTC)
    for version, age_days in ((1, 50), (2, 10)):
        active = (now - timedelta(days=age_days)).timestamp() * 1000
        entry = {"phone": "+493023125042", "votes": 10, "lastActivity": int(active)}
        Ran("import_complaints", file(json.dumps({"numbers": [entry], "version": version})))
    assert [(row[2], row[3]) for row in complaint_days()] == [(now.date() - timedelta(days=10), 10)]


def test_full_block_list_replaces_only_its_own_source(file: Any) -> None:
    Ran("import_complaints", file(block_list(41, n493023125042=4, n493023125043=10)))
    Ran("import_complaints", file(f"number,day,total\n493023125042,{TODAY},1\n"))
    Ran("import_complaints", file(block_list(42, n493023125042=4)), "--full")
    assert [row[:2] for row in complaint_days()] == [(493023125042, "import"), (493023125042, "phoneblock")]


def test_older_block_list_is_refused_without_full(file: Any) -> None:
    older, newer = (block_list(version, n493023125042=votes) for version, votes in ((41, 4), (42, 0)))
    Ran("import_complaints", file(older))
    Ran("import_complaints", file(newer))
    ran = Ran("import_complaints", file(older))
    assert "version 41, but version 42 is loaded" in str(ran.error)
    assert complaint_days() == []
    assert Ran("import_complaints", file(older), "--full").error is None
    assert len(complaint_days()) == 1


@pytest.mark.django_db(transaction=True)
def test_block_list_is_imported_by_itself(file: Any) -> None:
    paths = [file(block_list(41, n493023125042=4), "a.json"), file(ftc(("2125550142", "2026-03-05", "", "")), "b.csv")]
    for order in (paths, paths[::-1]):
        assert "import a block list by itself" in str(Ran("import_complaints", *order).error)
    assert complaint_days() == []


def test_files_of_several_formats_in_one_command(file: Any) -> None:
    header = "Ticket ID,Date of Issue,Caller ID Number"
    paths = [
        file(f"number,day,total,source\n{JANE},{TODAY},3,a\n{JANE + 1},{TODAY},4,a\n{JANE},{TODAY},9,a\n", "own"),
        file(f"{header}\n=,03/05/2026,212-555-0142\n1,03/05/2026,212-555-0142\n1,03/05/2026,212-555-0142\n", "fcc"),
        file(ftc(*[("2125550142", "2026-03-05", "", "N")] * 2), "ftc"),
    ]
    ran = Ran("import_complaints", *paths, "--json")
    assert ran.counts() == {"added": 4, "repeated": 2}
    assert [(row[0] - JANE, *row[1:4:2]) for row in complaint_days()] == [
        (0, "a", 3),
        (0, "fcc", 2),
        (0, "ftc", 2),
        (1, "a", 4),
    ]
