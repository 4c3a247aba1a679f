"""What imports read in files."""

from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from phonebook.models import Contact, ImportBatch
from tests.cases.case import Case


def contacts(case: Case, db: None, tmp_path: Path) -> None:
    """Files of contacts, each imported alone into an empty directory. `rejected`: in the order of the file."""
    options, expected = case.data.pop("options", []), case.data.pop("contacts")
    rejected, error = case.data.pop("rejected", []), case.data.pop("error", "")
    counts = case.data.pop("counts", {})
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
        if counts:
            stored = ImportBatch.objects.latest("pk").counts
            stored |= {"rejected": sum(stored["rejected"].values())}
            assert {key: stored[key] for key in counts} == counts
    assert got == dict.fromkeys(files, (expected, rejected, error))
