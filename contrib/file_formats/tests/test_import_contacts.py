"""`import_contacts`: what it says of formats."""

from typing import Any

import pytest

from phonebook.imports.readers import base
from tests.phonebook.commands.imports import JANE, Ran

pytestmark = pytest.mark.django_db


def test_format_overrides_unrecognized_first_lines(file: Any) -> None:
    path = file("an address book\n" * base.BEGIN_LINES + f"BEGIN:VCARD\nFN:Jane\nTEL:+{JANE}\nEND:VCARD\n")
    said = str(Ran("import_contacts", path).error)
    assert "its first lines have no known format. Correct them, or choose the format: vcard (vCard), google" in said
    assert "csv (CSV with number, name, location)" in said
    assert Ran("import_contacts", path, "--format", "vcard", "--json").counts() == {"added": 1}
