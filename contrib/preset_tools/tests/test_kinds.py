"""A case of a vendor's reply fails if its outcome or a field is another than its right result has."""

from pathlib import Path
from typing import Any

import pytest

from contrib.preset_tools.tests.kinds import vendor_reply
from tests.cases.case import Case

FOUND = {"outcome": "found", "name": "JANE"}
BAD = {"outcome": "bad_response"}


def test_replies_of_vendors_are_exact(tmp_path: Path) -> None:
    (tmp_path / "found.txt").write_text('HTTP/1.1 200 OK\n\n{"name": "JANE", "price": 0, "uri": "/"}')
    (tmp_path / "bad.txt").write_text("HTTP/1.1 200 OK\n\n<html>")

    def check(replies: dict[str, Any], **data: Any) -> None:
        vendor_reply(Case(tmp_path, "vendor_reply", {"presets": ["opencnam"], "replies": replies, **data}))

    check({"found.txt": FOUND, "bad.txt": BAD})
    check({"bad.txt": BAD}, hint="JSON")
    for wrong in ({"outcome": "found"}, FOUND | {"spam": True}, BAD):
        with pytest.raises(AssertionError):
            check({"found.txt": wrong})
    with pytest.raises(AssertionError):
        check({"bad.txt": BAD}, hint="XML")
