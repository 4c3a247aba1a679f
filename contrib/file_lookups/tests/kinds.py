"""What is read in files to look up."""

from collections.abc import Mapping
from typing import Any

from contrib.file_lookups.number_file import Record, open_numbers
from phonebook.imports.readers.base import UnreadableFile
from tests.cases.case import Case


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
