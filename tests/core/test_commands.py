"""How messages name a command, by how the program is installed."""

from pathlib import Path
from typing import Any

import pytest

from callerid_project.installation import INSTALLED, manage_command
from core.commands import command_line


@pytest.mark.parametrize(
    ("written", "embedded", "prune", "migrate"),
    [
        (None, True, "./run manage prune", "./run manage migrate"),
        (None, False, "./run manage prune", "./run manage migrate as the owner of the database"),
        ("callerid", False, "callerid prune", "callerid --owner migrate"),
        ("/srv/bin/callerid", False, "/srv/bin/callerid prune", "/srv/bin/callerid --owner migrate"),
        ("python manage.py", False, "python manage.py prune", "python manage.py migrate as the owner of the database"),
    ],
)
def test_a_command_is_named_as_it_is_called_here(
    written: str | None, embedded: bool, prune: str, migrate: str, tmp_path: Path, settings: Any
) -> None:
    if written:
        (tmp_path / INSTALLED).write_text(f"{written}\n")
    settings.MANAGE_COMMAND, settings.EMBEDDED = manage_command(tmp_path), embedded
    assert [command_line("prune"), command_line("migrate")] == [prune, migrate]
