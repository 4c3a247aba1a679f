"""A case of a file fails if there are other numbers than its right result has."""

from pathlib import Path
from typing import Any

import pytest

from contrib.file_lookups.tests.kinds import number_file
from tests.cases.case import Case

FILE = "number,name\n12125550142,Jane\n12125550143,Eve\n12,Zoe\n"
NUMBERS = {"2": "12125550142", "3": "12125550143", "4": "invalid"}


def test_numbers_of_a_file_are_exact(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(FILE)

    def check(**data: Any) -> None:
        number_file(Case(tmp_path, "number_file", {"files": ["people.csv"], **data}))

    check(numbers=NUMBERS)
    for wrong in ({"2": "12125550142"}, NUMBERS | {"4": "12"}, NUMBERS | {"5": "12125550144"}, NUMBERS | {"4": ""}):
        with pytest.raises(AssertionError):
            check(numbers=wrong)
    with pytest.raises(AssertionError):
        check(error="not CSV")
    with pytest.raises(AssertionError):
        number_file(Case(tmp_path, "number_file", {"files": [], "numbers": NUMBERS}))
