"""`import_contacts` and `import_complaints`, as an operator types them."""

import io
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from lookup.models import ComplaintDay, Contact

pytestmark = pytest.mark.django_db

GOOD = "12125550142,Jane Doe,New York"


class Ran:
    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.error: CommandError | None = None
        try:
            call_command(*arguments, stdout=out, stderr=err, no_color=True)
        except CommandError as error:
            self.error = error
        self.out, self.err = out.getvalue(), err.getvalue()


@pytest.fixture
def csv_file(tmp_path: Path) -> Any:
    def write(text: str | bytes, name: str = "list.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def contact_file(csv_file: Any, *rows: str) -> str:
    return str(csv_file("\n".join(["number,name,location", *rows]) + "\n"))


def test_good_lines_are_imported_and_bad_ones_listed_with_their_place(csv_file: Any) -> None:
    path = contact_file(csv_file, GOOD, "abc,Secret Name,", "12125550142,Secret Twin,", "441614960142,,")
    ran = Ran("import_contacts", path)
    assert ran.error is None
    assert ran.err.splitlines() == [
        f"{path}:3: number must contain only digits",
        f"{path}:4: 1********42: the same number as line 2",
        f"{path}:5: 44********42: neither a name nor a location",
    ]
    assert ran.out == "4 contacts read: 1 added, 0 changed, 0 unchanged, 3 rejected.\n"
    assert Contact.objects.values_list("number", "name", "location").get() == (12125550142, "Jane Doe", "New York")


def test_json_is_the_counts_and_nothing_else(csv_file: Any) -> None:
    Contact.objects.create(number=12125550142, name="John Doe")
    ran = Ran("import_contacts", contact_file(csv_file, GOOD, "x,y,z"), "--json")
    assert json.loads(ran.out) == {
        "read": 2,
        "added": 0,
        "changed": 1,
        "unchanged": 0,
        "rejected": 1,
        "dry_run": False,
    }


def test_a_dry_run_counts_and_changes_nothing(csv_file: Any) -> None:
    ran = Ran("import_contacts", contact_file(csv_file, GOOD), "--dry-run")
    assert "1 added" in ran.out
    assert "Dry run" in ran.out
    assert not Contact.objects.exists()


@pytest.mark.parametrize("text", ["number,name,location\n", "number,name", "number,name\n\n\n"])
def test_a_header_alone_is_a_file_that_was_read(csv_file: Any, text: str) -> None:
    ran = Ran("import_contacts", csv_file(text))
    assert ran.error is None
    assert ran.out.startswith("0 contacts read")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "empty"),
        (b"phone,name\n12125550142,Jane\n", "missing: number"),
        (b"number,name\n12125550142,Jane\n12125550143,J\xe4ne\n", "line 3 is not UTF-8"),
        (b"number,name\nabc,Jane\n", "no line could be used"),
    ],
)
def test_a_file_that_cannot_be_used_fails_and_changes_nothing(csv_file: Any, text: bytes, says: str) -> None:
    ran = Ran("import_contacts", csv_file(text))
    assert says in str(ran.error)
    assert "Jane" not in str(ran.error) + ran.err
    assert ran.out == ""
    assert not Contact.objects.exists()


@pytest.mark.parametrize("name", ["missing.csv", "."])
def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path, name: str) -> None:
    ran = Ran("import_contacts", str(tmp_path / name))
    assert str(ran.error).startswith(str(tmp_path))
    assert "\n" not in str(ran.error)


def test_standard_input_is_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    text = "number,name\n12125550142,Jane\nabc,John\n" * 5_000

    def feed() -> None:
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(reading) as piped:
        monkeypatch.setattr("sys.stdin", piped)
        ran = Ran("import_contacts", "-")
    feeder.join()
    assert Contact.objects.get().name == "Jane"
    assert ran.err.startswith("<stdin>:3: ")


def test_importing_complaints_twice_counts_nothing_twice(csv_file: Any) -> None:
    today = datetime.now(UTC).date()
    path = csv_file(f"number,day,total,robocalls\n+1 212 555 0142,{today},3,1\n")
    assert Ran("import_complaints", path).out.startswith("1 complaint days read: 1 added")
    assert Ran("import_complaints", path).out.startswith("1 complaint days read: 0 added, 0 changed, 1 unchanged")
    path = csv_file(f"number,day,total\n12125550142,{today},5\n")
    assert Ran("import_complaints", path).out.startswith("1 complaint days read: 0 added, 1 changed")
    row = ComplaintDay.objects.get()
    assert (row.number, row.source, row.day, row.total, row.robocalls) == (12125550142, "import", today, 5, 0)


def test_two_sources_stand_side_by_side(csv_file: Any) -> None:
    path = csv_file("number,day,total\n12125550142,2026-01-31,3\n")
    Ran("import_complaints", path, "--source", "ftc")
    Ran("import_complaints", path)
    assert set(ComplaintDay.objects.values_list("source", flat=True)) == {"ftc", "import"}


def test_a_complaint_from_the_future_is_rejected_and_tomorrows_is_not(csv_file: Any) -> None:
    today = datetime.now(UTC).date()
    days = "".join(f"12125550142,{today + timedelta(days=ahead)},1\n" for ahead in (0, 1, 2))
    ran = Ran("import_complaints", csv_file("number,day,total\n" + days))
    assert ran.err.count("\n") == 1
    assert "future" in ran.err
    assert ComplaintDay.objects.count() == 2


@pytest.mark.parametrize("source", ["", "s" * 33])
def test_a_bad_source_is_refused(csv_file: Any, source: str) -> None:
    ran = Ran("import_complaints", csv_file("number,day,total\n12125550142,2026-01-31,3\n"), "--source", source)
    assert "--source" in str(ran.error)
    assert not ComplaintDay.objects.exists()


@pytest.mark.parametrize("command", ["import_contacts", "import_complaints"])
def test_help_says_what_becomes_of_bad_lines(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command(command, "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert "listed on stderr as FILE:LINE: reason" in said
    assert "the good lines are imported" in said


def test_a_terminal_sees_progress_and_a_pipe_does_not(csv_file: Any) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    path = contact_file(csv_file, GOOD)
    terminal = Terminal()
    call_command("import_contacts", path, stdout=io.StringIO(), stderr=terminal)
    assert "1 rows" in terminal.getvalue()
    assert Ran("import_contacts", path).err == ""
