"""Commands do not import what they do not need: their start-up time, measured in modules instead of seconds."""

import subprocess
import sys

import pytest

from tests.plugin import ROOT

pytestmark = pytest.mark.once

#: Each costs tens of milliseconds or megabytes.
EXPENSIVE = (
    "rest_framework.views",
    "requests",
    "redis",
    "psycopg",
    "unfold.admin",
    "accounts.admin",
    "lookup.views",
    "uvicorn",
    "asyncpg",
)


def imported(work: str, setup: str = "django.setup()") -> set[str]:
    """The modules of EXPENSIVE that a process with the default settings has imported after `work`."""
    script = f"import sys, django; {setup}; {work}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split()) & set(EXPENSIVE)


@pytest.mark.parametrize("command", ["set_rule", "import_contacts", "forget", "prune", "list_tokens", "check_sources"])
def test_commands_import_neither_api_nor_console_nor_clients(command: str) -> None:
    load = f"m.load_command_class(m.get_commands()['{command}'], '{command}')"
    work = f"import django.core.management as m; {load}"
    assert imported(work) <= ({"requests"} if command == "check_sources" else set())


def test_search_instance_does_not_import_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVE", "search")
    assert not {"accounts.admin", "unfold.admin"} & imported("import callerid_project.asgi", setup="pass")
    monkeypatch.setenv("SERVE", "all")
    assert {"accounts.admin", "unfold.admin"} <= imported("import callerid_project.asgi", setup="pass")


def test_the_console_pages_are_checked_although_imported_lazily() -> None:
    work = "from django.core.checks import run_checks; assert not run_checks(tags=['admin'])"
    assert "accounts.admin" in imported(work)
