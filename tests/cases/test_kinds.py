"""A case fails if there are more or other rows and fields than its right result has."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.case import Case
from tests.cases.kinds import contacts, vendor_reply

FILE = "number,name\n12125550142,Jane\n12125550143,Eve\n12,Zoe\n"
CONTACTS = {"12125550142": ["Jane", ""], "12125550143": ["Eve", ""]}
FOUND = {"outcome": "found", "name": "JANE"}
BAD = {"outcome": "bad_response"}


def made(folder: Path, kind: str, **data: Any) -> Case:
    (folder / "people.csv").write_text(FILE)
    (folder / "found.txt").write_text('HTTP/1.1 200 OK\n\n{"name": "JANE", "price": 0, "uri": "/"}')
    (folder / "bad.txt").write_text("HTTP/1.1 200 OK\n\n<html>")
    return Case(folder, kind, data)


@pytest.mark.django_db
def test_contacts_and_rejected_lines_are_exact(tmp_path: Path) -> None:
    def check(right: dict[str, Any], rejected: list[str], error: str = "") -> None:
        for each in tmp_path.glob("*.rejects"):
            each.unlink()
        data = {"files": ["people.csv"], "contacts": right, "rejected": rejected, "error": error}
        contacts(made(tmp_path, "contacts", **data), None, tmp_path)

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


def test_replies_of_vendors_are_exact(tmp_path: Path) -> None:
    def check(replies: dict[str, Any], **data: Any) -> None:
        vendor_reply(made(tmp_path, "vendor_reply", presets=["opencnam"], replies=replies, **data))

    check({"found.txt": FOUND, "bad.txt": BAD})
    check({"bad.txt": BAD}, hint="JSON")
    for wrong in ({"outcome": "found"}, FOUND | {"spam": True}, BAD):
        with pytest.raises(AssertionError):
            check({"found.txt": wrong})
    with pytest.raises(AssertionError):
        check({"bad.txt": BAD}, hint="XML")
