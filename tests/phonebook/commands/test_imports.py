"""`import_contacts`, and what it shares with `import_complaints`."""

import gzip
import io
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import OperationalError

from phonebook import suppression
from phonebook.admin.imports import fault_texts
from phonebook.imports.readers import base
from phonebook.imports.staging import Tables, TargetTable
from phonebook.models import ComplaintDay, ComplaintSubject, Contact, ImportBatch
from tests.phonebook.commands.imports import JANE, TODAY, Ran

pytestmark = pytest.mark.django_db

GOOD = f"{JANE},Jane Doe,New York"


def contact_file(file: Any, *rows: str) -> str:
    return str(file("\n".join(["number,name,location", *rows]) + "\n"))


def test_valid_rows_are_imported_and_others_listed_by_line(file: Any) -> None:
    path = contact_file(file, GOOD, "abc,Secret Name,", f"{JANE},Secret Twin,", "441614960142,,")
    ran = Ran("import_contacts", path)
    assert ran.error is None
    assert ran.err.splitlines() == [
        f"{path}:3: number is no phone number",
        f"{path}:5: 44********42: neither a name nor a location",
        f"{path}:4: 1********42: repeats an earlier row (line 2)",
    ]
    assert ran.out.splitlines() == [
        "4 rows read (CSV with number, name, location): 1 repeated, 2 rejected.",
        "  1 rejected: number is no phone number",
        "  1 rejected: neither a name nor a location",
        "Contacts: 1 added.",
    ]
    assert Contact.objects.values_list("number", "name", "location").get() == (JANE, "Jane Doe", "New York")


def test_file_without_a_known_format_is_told_all_of_them(file: Any) -> None:
    said = str(Ran("import_contacts", file("an address book\n" * base.BEGIN_LINES + "number,name\n")).error)
    assert "its first lines have no known format. Correct them, or choose the format: " in said
    assert said.endswith("csv (CSV with number, name, location). Nothing was changed.")


def test_unknown_encoding_region_or_format_is_one_sentence(file: Any) -> None:
    for option, value in (
        ("--encoding", "klingon"),
        ("--encoding", "rot13"),
        ("--region", "Atlantis"),
        ("--format", "xml"),
    ):
        error = str(Ran("import_contacts", contact_file(file, GOOD), option, value).error)
        assert value in error
        assert "\n" not in error


def test_name_of_a_file_need_not_be_utf_8(file: Any) -> None:
    """As in an archive from another system. Neither database stores it as it is."""
    path = Path(contact_file(file, GOOD, "12,Short,"))
    ran = Ran("import_contacts", str(path.rename(path.with_name("caf\udce9.csv"))), "--json")
    assert ran.counts() == {"added": 1}
    batch = ImportBatch.objects.get()
    assert (batch.file_name, batch.faults[0]["file"]) == ("caf.csv", "caf.csv")
    path.with_name("caf\udce9.csv").write_bytes(b"number,name\n12,Short\n")
    assert "caf.csv: no valid row" in str(Ran("import_contacts", str(path.with_name("caf\udce9.csv"))).error)
    path.with_name("caf\udce9.csv").write_bytes(b"\xff\xfe\x00")
    assert "caf.csv: the text is damaged" in str(Ran("import_contacts", str(path.with_name("caf\udce9.csv"))).error)
    assert [row.state for row in ImportBatch.objects.order_by("pk")] == ["done", "failed", "failed"]


def test_repeated_import_changes_only_what_differs(file: Any) -> None:
    path = contact_file(file, GOOD, "441614960142,Old Name,")
    assert Ran("import_contacts", path, "--json").counts() == {"added": 2}
    assert Ran("import_contacts", path, "--json").counts() == {"unchanged": 2}
    path = contact_file(file, GOOD, "441614960142,New Name,", "493023125042,Third,")
    assert Ran("import_contacts", path, "--json").counts() == {"added": 1, "changed": 1, "unchanged": 1}
    assert Contact.objects.get(number=441614960142).name == "New Name"


def test_dry_run_prints_the_same_and_writes_nothing(file: Any) -> None:
    Contact.objects.create(number=JANE, name="John Doe")
    path = contact_file(file, GOOD, "441614960142,Other,", "x,y,")
    dry = Ran("import_contacts", path, "--dry-run")
    assert Contact.objects.get().name == "John Doe"
    wet = Ran("import_contacts", path)
    assert dry.out == wet.out + "Dry run: nothing was changed.\n"
    assert dry.err == wet.err
    assert "Contacts: 1 added, 1 changed." in dry.out


def test_first_rejects_are_printed_or_all_listed_in_a_file(file: Any, tmp_path: Path) -> None:
    listing = tmp_path / "rejects"
    path = contact_file(file, GOOD, *["x,y,z"] * 50)
    lines = [f"{path}:{n}: number is no phone number" for n in range(3, 53)]
    assert Ran("import_contacts", path).err.splitlines() == [
        *lines[:20],
        "… and 30 more: --rejects FILE lists them all.",
    ]
    assert Ran("import_contacts", path, "--rejects", str(listing)).err == ""
    assert listing.read_text().splitlines() == [line.replace(": number", ": y: number") for line in lines]
    assert listing.stat().st_mode & 0o077 == 0


def test_contact_without_a_number_is_counted_and_named(file: Any) -> None:
    """Not on standard error, which may be a log."""
    path = contact_file(file, GOOD, ",Mail Only,")
    ran = Ran("import_contacts", path)
    assert ran.err == f"{path}:3: no number\n"
    assert "2 rows read (CSV with number, name, location): 1 rejected." in ran.out
    batch = ImportBatch.objects.get()
    assert (batch.counts["read"], batch.counts["rejected"]) == (2, {"no number": 1})
    assert fault_texts(batch.faults) == [f"{Path(path).name}, line 3: Mail Only: no number"]


def test_rejects_never_overwrite_a_file(file: Any) -> None:
    path = contact_file(file, GOOD, "x,y,z")
    ran = Ran("import_contacts", path, "--rejects", path)
    assert str(ran.error) == f"--rejects {path}: File exists. Nothing was changed."
    assert GOOD in Path(path).read_text()
    assert not Contact.objects.exists()


@pytest.mark.parametrize(
    ("command", "header", "cells"), [("import_contacts", "name", "X"), ("import_complaints", "day,total", f"{TODAY},1")]
)
def test_number_suppressed_during_an_import_is_not_imported(
    file: Any, monkeypatch: pytest.MonkeyPatch, command: str, header: str, cells: str
) -> None:
    lock = Tables.lock

    def suppress_first(table: TargetTable) -> Any:
        suppression.suppress([JANE])
        return lock(table)

    monkeypatch.setattr(Tables, "lock", staticmethod(suppress_first))
    ran = Ran(command, file(f"number,{header}\n{JANE},{cells}\n{JANE + 1},{cells}\n"))
    assert "1 rejected: blocked: its data was erased on request" in ran.out
    assert ran.err.endswith(":2: 1********42: blocked: its data was erased on request\n")
    left = [*Contact.objects.values_list("number", flat=True), *ComplaintDay.objects.values_list("number", flat=True)]
    assert left == [JANE + 1]


def test_subject_of_suppressed_numbers_only_is_not_stored(file: Any) -> None:
    suppression.suppress([JANE])
    Ran("import_complaints", file(f"number,day,total,subject\n{JANE},{TODAY},1,Jane\n{JANE + 1},{TODAY},1,Sales\n"))
    assert ComplaintSubject.objects.get().text == "Sales"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "empty"),
        (b"a,b\n12125550142,Jane\n", "no known format"),
        (b"number,name,number\n12125550142,Jane\n", "twice"),
        (b"number,name\nabc,Jane\n", "no valid row"),
        (b"<!DOCTYPE html>\n<p>404", "this is a web page"),
        (b"%PDF-1.7\n", "this is a PDF"),
        (b"PK\x03\x04xl/worksheets", "this is a zip file or a spreadsheet"),
        (gzip.compress(b"number,name\n12125550142,Jane\n")[:-4], "damaged or truncated"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_unreadable_file_fails_and_changes_nothing(file: Any, text: bytes, says: str) -> None:
    ran = Ran("import_contacts", file(text))
    assert says in str(ran.error)
    assert str(ran.error).endswith("Nothing was changed.")
    assert "Jane" not in str(ran.error) + ran.err
    assert "list.csv: " in str(ran.error)
    assert ran.out == ""
    assert not Contact.objects.exists()


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path, name: str) -> None:
    ran = Ran("import_contacts", str(tmp_path / name))
    assert str(ran.error).startswith(str(tmp_path))
    assert "\n" not in str(ran.error)


@pytest.mark.django_db(transaction=True)
def test_database_error_is_printed_without_rows(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("12125550142 Jane Doe") from sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Tables, "merge", fail)
    ran = Ran("import_contacts", contact_file(file, GOOD))
    assert str(ran.error) == "OperationalError: database or disk is full. Interrupted. Nothing was changed."


def test_progress_is_shown_on_a_terminal_only(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    path = contact_file(file, GOOD)
    shown = []
    for stderr in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stderr)
        Ran("import_contacts", path)
        shown.append(stderr.getvalue())
    assert "list.csv: " in shown[0]
    assert "merging: " in shown[0]
    assert shown[1] == ""


def test_interrupted_import_says_what_was_written(file: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Any, table: TargetTable, counts: Any, batch: Any) -> None:
        self.committed = committed
        raise KeyboardInterrupt

    monkeypatch.setattr(Tables, "merge", interrupt)
    committed = 0
    assert str(Ran("import_contacts", contact_file(file, GOOD)).error) == "Interrupted. Nothing was changed."
    assert not LogEntry.objects.exists()
    committed = 5_000
    said = str(Ran("import_contacts", contact_file(file, GOOD)).error)
    assert said.startswith("Interrupted after 5,000 rows were written. Run the same command again for the rest")
    assert LogEntry.objects.get().change_message == said
