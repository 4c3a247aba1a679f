"""A case fails if there are more or other rows and fields than its right result has."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.case import Case
from tests.cases.kinds import contacts

FILE = "number,name\n12125550142,Jane\n12125550143,Eve\n12,Zoe\n"
CONTACTS = {"12125550142": ["Jane", ""], "12125550143": ["Eve", ""]}


@pytest.mark.django_db
def test_contacts_and_rejected_lines_are_exact(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(FILE)

    def check(right: dict[str, Any], rejected: list[str], error: str = "") -> None:
        for each in tmp_path.glob("*.rejects"):
            each.unlink()
        data = {"files": ["people.csv"], "contacts": right, "rejected": rejected, "error": error}
        contacts(Case(tmp_path, "contacts", data), None, tmp_path)

    check(CONTACTS, ["7 to 15 digits"])
    wrong: list[tuple[dict[str, Any], list[str]]] = [
        ({"12125550142": ["Jane", ""]}, ["7 to 15 digits"]),
        (CONTACTS | {"12125550143": ["Eve", "Rome"]}, ["7 to 15 digits"]),
        (CONTACTS, []),
        (CONTACTS, ["7 to 15 digits", "7 to 15 digits"]),
        (CONTACTS, ["region"]),
    ]
    for right, rejected in wrong:
        with pytest.raises(AssertionError):
            check(right, rejected)
    with pytest.raises(AssertionError):
        check(CONTACTS, ["7 to 15 digits"], "no valid row")
