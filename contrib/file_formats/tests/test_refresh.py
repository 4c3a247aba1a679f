"""Refreshing the published data: what is new is imported once, and what fails changes nothing."""

import gzip
import sqlite3
from datetime import date, timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from contrib.file_formats.refresh import refresh
from contrib.file_formats.tests.publisher import chunked, truncated
from contrib.file_formats.tests.refreshing import LIST_PATH, TOKEN, Publishers, stored
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.pipeline import TransferResult
from phonebook.models import Dataset
from tests.upstream import BOMB, Behaviour, raw

pytestmark = pytest.mark.django_db

TODAY = date(2026, 3, 11)  # a Wednesday
FRIDAY, MONDAY, TUESDAY = "2026-03-06", "2026-03-09", "2026-03-10"
HTML = raw(b"<html>Maintenance</html>", headers="Content-Type: text/html\r\n")
ROWS = b"Ticket ID,Date of Issue,Caller ID Number\n1,03/10/2026,212-555-0142\n"
LIMITED = raw(b"", 429, "Retry-After: 86400\r\n")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def run(*sources: str, today: date = TODAY, **options: Any) -> list[TransferResult]:
    return [result for _, result in refresh(sources, today=today, **options)]


def run_one(source: str, **options: Any) -> TransferResult:
    """A source's result without errors."""
    (result,) = run(source, **options)
    assert result.errors == []
    return result


def left(publishers: Publishers) -> list[str]:
    return [path.name for path in publishers.downloads.iterdir()]


# --- The FTC's files -------------------------------------------------------------------------------------------------


def test_ftc_files_are_fetched_for_weekdays_not_yet_imported(publishers: Publishers) -> None:
    publishers.publish_ftc(FRIDAY, MONDAY)
    result = run_one("ftc")
    assert (result.transferred, result.added) == (2, 40)
    asked = [date.fromisoformat(path[1:11]) for path in publishers.ftc.requests]
    assert asked == [day for day in (date(2026, 2, 5) + timedelta(days=n) for n in range(35)) if day.isoweekday() < 6]
    publishers.publish_ftc(FRIDAY, MONDAY, TUESDAY)
    again = run_one("ftc")
    assert (again.transferred, again.added) == (1, 20)
    assert not {f"/{FRIDAY}.csv", f"/{MONDAY}.csv"} & set(publishers.ftc.requests[len(asked) :])
    assert stored("ftc") == {FRIDAY: 20, MONDAY: 20, TUESDAY: 20}
    assert run_one("ftc") == TransferResult()


def test_ftc_files_are_forgotten_when_they_are_no_longer_kept(publishers: Publishers) -> None:
    publishers.publish_ftc(TUESDAY)
    run_one("ftc")
    publishers.publish_ftc("2026-04-14")
    run_one("ftc", today=date(2026, 4, 14))
    assert set(Dataset.objects.filter(name__startswith="file").values_list("name", flat=True)) == {
        "file ftc 2026-04-14"
    }
    assert f"/{TUESDAY}.csv" not in publishers.ftc.requests[25:]


@pytest.mark.parametrize("fault", [HTML, raw(b"", headers="Content-Type: text/csv\r\n"), raw(b"a,b\n1,2\n")])
def test_unusable_ftc_file_does_not_stop_the_other_days(publishers: Publishers, fault: Behaviour) -> None:
    publishers.publish_ftc(FRIDAY, MONDAY, TUESDAY)
    days_before_monday = 22
    publishers.ftc.faults = [raw(b"", 404)] * days_before_monday + [fault]
    (result,) = run("ftc")
    assert [error[:11] for error in result.errors] == [f"{MONDAY}:"]
    assert stored("ftc") == {TUESDAY: 20}
    assert run_one("ftc").transferred == 2
    assert left(publishers) == ["lock"]


def test_ftc_file_that_is_refused_does_not_stop_the_other_days(publishers: Publishers) -> None:
    publishers.publish_ftc(FRIDAY, MONDAY, TUESDAY)
    publishers.ftc.faults = [raw(b"", 404)] * 22 + [raw(b"", 403)]
    (result,) = run("ftc")
    assert result.errors == [f"{MONDAY}: the server refused access (403)"]
    assert stored("ftc") == {TUESDAY: 20}
    publishers.ftc.faults = [raw(b"", 403)] * 9
    (result,) = run("ftc")
    assert len(result.errors) == 3


def test_ftc_without_any_recent_file_has_failed(publishers: Publishers) -> None:
    publishers.publish_ftc("2026-03-03")
    (result,) = run("ftc")
    assert result.errors == ["the server has no file of the last 7 days"]
    assert stored("ftc") == {"2026-03-03": 20}


def test_much_smaller_ftc_file_is_refused_unless_allowed(publishers: Publishers) -> None:
    publishers.publish_ftc("2026-03-04", numbers=21)
    publishers.publish_ftc("2026-03-05", FRIDAY, numbers=90)
    publishers.publish_ftc(MONDAY, numbers=10)
    (result,) = run("ftc")
    assert result.errors == [
        f"{MONDAY}: 10 valid rows are less than half of the previous file's 21; to import it anyway, add --allow-loss"
    ]
    assert MONDAY not in stored("ftc")
    assert run_one("ftc", allow_loss=True).transferred == 1
    assert stored("ftc")[MONDAY] == 10


# --- The FCC's table -------------------------------------------------------------------------------------------------


def test_fcc_table_is_imported_only_if_it_changed(publishers: Publishers) -> None:
    publishers.publish_fcc(TODAY - timedelta(days=1))
    assert run_one("fcc").added == 20
    assert run_one("fcc") == TransferResult()
    publishers.publish_fcc(TODAY - timedelta(days=1), TODAY, etag='"2"')
    result = run_one("fcc")
    assert (result.added, result.unchanged) == (20, 20)
    Dataset.objects.all().delete()  # another database: nothing is loaded
    assert run_one("fcc").transferred == 1


@pytest.mark.parametrize("fault", [HTML, truncated(b"x" * 500, 100), raw(b"", 500), LIMITED])
def test_failed_download_leaves_yesterdays_data(publishers: Publishers, fault: Behaviour) -> None:
    publishers.publish_fcc(TODAY)
    run_one("fcc")
    publishers.publish_fcc(TODAY, TODAY, etag='"2"')
    publishers.fcc.faults = [fault] * 4
    (result,) = run("fcc")
    assert len(result.errors) == 1
    assert stored("fcc") == {str(TODAY): 20}
    assert left(publishers) == ["lock"]
    publishers.fcc.faults.clear()
    assert run_one("fcc").transferred == 1


def test_fcc_table_that_shrank_is_refused_unless_allowed(publishers: Publishers) -> None:
    days = [TODAY - timedelta(days=n) for n in range(3)]
    publishers.publish_fcc(*days)
    run_one("fcc")
    publishers.publish_fcc(TODAY, etag='"2"')
    (result,) = run("fcc")
    assert "20 valid rows are less than half of the previous file's 60" in result.errors[0]
    assert list(stored("fcc").values()) == [20, 20, 20]
    assert run_one("fcc", allow_loss=True).unchanged == 20


def test_days_that_prune_would_delete_are_not_imported(publishers: Publishers, settings: Any) -> None:
    settings.COMPLAINT_KEPT_DAYS = 10
    publishers.publish_fcc(*(TODAY - timedelta(days=n) for n in (9, 10, 400)))
    assert run_one("fcc").read == 20
    assert list(stored("fcc")) == ["2026-03-02"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (chunked(BOMB, "Content-Encoding: gzip\r\n"), "larger than 1 MB"),
        (chunked(gzip.compress(ROWS)[:-4], "Content-Encoding: gzip\r\n"), "damaged or truncated"),
    ],
)
def test_unusable_gzip_is_refused_at_once(
    publishers: Publishers, settings: Any, fault: Behaviour, message: str
) -> None:
    settings.REFRESH_MAX_MB = 1
    publishers.fcc.faults = [fault]
    (result,) = run("fcc")
    assert message in result.errors[0]
    assert len(publishers.fcc.requests) == 1
    assert stored("fcc") == {}
    assert left(publishers) == ["lock"]


# --- PhoneBlock's list -----------------------------------------------------------------------------------------------


def test_phoneblock_list_is_loaded_once_and_then_its_changes(publishers: Publishers) -> None:
    publishers.publish_list(41, {1: 10, 2: 20, 3: 4})
    assert run_one("phoneblock").added == 3
    publishers.publish_list(42, {2: 0, 3: 10}, since=41)
    result = run_one("phoneblock")
    assert (result.changed, result.removed) == (1, 1)
    publishers.publish_list(42, {}, since=42)
    assert run_one("phoneblock").read == 0
    assert publishers.phoneblock.requests == [LIST_PATH, f"{LIST_PATH}&since=41", f"{LIST_PATH}&since=42"]
    assert {publishers.phoneblock.sent(n, "Authorization") for n in range(3)} == {f"Bearer {TOKEN}"}
    publishers.publish_list(50, {1: 10})
    assert run_one("phoneblock", full=True).removed == 1


def test_phoneblock_without_a_token_is_not_asked(publishers: Publishers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHONEBLOCK_TOKEN", " ")
    assert run("phoneblock") == [
        TransferResult(errors=["set PHONEBLOCK_TOKEN to a token that may download the block list"])
    ]
    assert publishers.phoneblock.requests == []


@pytest.mark.parametrize("token", [TOKEN, "ключ", "a\nb"])
def test_errors_do_not_contain_the_token(
    publishers: Publishers, monkeypatch: pytest.MonkeyPatch, caplog: Any, token: str
) -> None:
    monkeypatch.setenv("PHONEBLOCK_TOKEN", token)
    publishers.phoneblock.faults = [raw(b"Please provide login credentials.", 401)]
    (result,) = run("phoneblock")
    assert len(result.errors) == 1
    assert token not in str(result) + caplog.text


# --- All -------------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_database_error_is_reported_without_a_row(publishers: Publishers, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise DatabaseError("12125550142") from sqlite3.OperationalError("database or disk is full")

    publishers.publish_fcc(TODAY)
    publishers.publish_list(41, {1: 10})
    full = "database: DatabaseError: database or disk is full"
    with monkeypatch.context() as patch:
        patch.setattr(ComplaintImport, "run", fail)
        assert [result.errors for result in run("fcc", "phoneblock")] == [[full]] * 2
    assert left(publishers) == ["lock"]
    assert run_one("fcc").transferred == 1
