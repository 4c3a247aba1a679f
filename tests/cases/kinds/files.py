"""What imports and file look-ups read in files."""

from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from lookup.number_file import open_numbers
from phonebook.models import Contact
from tests.cases.case import Case


def contacts(case: Case, db: None, tmp_path: Path) -> None:
    """Files of contacts, each imported alone into an empty directory."""
    options, expected = case.data.pop("options", []), case.data.pop("contacts")
    rejected, error = case.data.pop("rejected", []), case.data.pop("error", "")
    got: dict[str, Any] = {}
    for name in (files := case.data.pop("files")):
        Contact.objects.all().delete()
        rejects, output = tmp_path / f"{name}.rejects", StringIO()
        said = ""
        try:
            call_command(
                *("import_contacts", str(case.folder / name), "--rejects", str(rejects), *options),
                stdout=output,
                stderr=output,
            )
        except CommandError as failed:
            said = str(failed)
        rows = {str(row.number): [row.name, row.location] for row in Contact.objects.order_by("number")}
        lines = rejects.read_text(encoding="utf-8").splitlines() if rejects.exists() else []
        missing = [part for part in rejected if not any(part in line for line in lines)]
        got[name] = (rows, missing, len(lines), error in said if error else said == "")
    assert got == {name: (expected, [], len(rejected), True) for name in files}


def number_file(case: Case) -> None:
    """Files of numbers to look up: the number of each row by its line, or a part of the reason why it has none."""
    column, region = case.data.pop("column", None), case.data.pop("region", None)
    expected, error = case.data.pop("numbers", {}), case.data.pop("error", "")
    got: dict[str, Any] = {}
    for name in (files := case.data.pop("files")):
        try:
            with open_numbers(str(case.folder / name), column=column, region=region) as file:
                records = {str(record.line): record for record in file.records}
        except Exception as failed:
            got[name] = {"error": str(failed) if error not in str(failed) else error}
            continue
        got[name] = {
            line: wanted if record and wanted and wanted in record.problem else record.number or record.problem
            for line, wanted, record in ((line, expected.get(line), record) for line, record in records.items())
        }
    assert got == {name: {"error": error} if error else expected for name in files}
