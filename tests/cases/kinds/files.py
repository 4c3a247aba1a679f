"""What imports and file look-ups read in files."""

from collections.abc import Mapping
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from lookup.number_file import Record, open_numbers
from phonebook.imports.readers.base import UnreadableFile
from phonebook.models import Contact
from tests.cases.case import Case


def contacts(case: Case, db: None, tmp_path: Path) -> None:
    """Files of contacts, each imported alone into an empty directory. `rejected`: in the order of the file."""
    options, expected = case.data.pop("options", []), case.data.pop("contacts")
    rejected, error = case.data.pop("rejected", []), case.data.pop("error", "")
    got: dict[str, Any] = {}
    files = case.data.pop("files")
    assert files, "or nothing is compared"
    for name in files:
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
        shown = [part if part in line else line for part, line in zip_longest(rejected, lines, fillvalue="")]
        got[name] = (rows, shown, error if error and error in said else said)
    assert got == dict.fromkeys(files, (expected, rejected, error))


def number_file(case: Case) -> None:
    """Files of numbers to look up: the number of each row by its line, or a part of the reason why it has none."""
    column, region = case.data.pop("column", None), case.data.pop("region", None)
    expected, error = case.data.pop("numbers", {}), case.data.pop("error", "")
    got: dict[str, Any] = {}
    files = case.data.pop("files")
    assert files, "or nothing is compared"
    for name in files:
        try:
            with open_numbers(str(case.folder / name), column=column, region=region) as file:
                records = list(file.records)
        except UnreadableFile as failed:
            got[name] = error if error and error in str(failed) else str(failed)
        else:
            got[name] = [(str(record.line), _as_expected(record, expected)) for record in records]
    assert got == {name: error or list(expected.items()) for name in files}


def _as_expected(record: Record, expected: Mapping[str, str]) -> str:
    """The number or, as far as it is expected, the reason why there is none."""
    wanted = expected.get(str(record.line), "")
    return wanted if wanted and not record.number and wanted in record.problem else record.number or record.problem
