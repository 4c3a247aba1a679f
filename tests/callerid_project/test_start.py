"""What a command imports before it does anything: the time of its start, counted in modules and not by a clock."""

import subprocess
import sys

import pytest

from tests.plugin import ROOT

pytestmark = pytest.mark.once

#: Each costs tens of milliseconds, or megabytes, or both.
DEAR = (
    "rest_framework.views",
    "requests",
    "redis",
    "psycopg",
    "unfold.admin",
    "accounts.admin",
    "lookup.views",
    "granian",
)


def imported(work: str) -> set[str]:
    """Of DEAR, what a process with the default settings has imported after `work`."""
    script = f"import sys, django; django.setup(); {work}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split()) & set(DEAR)


@pytest.mark.parametrize(
    "command", ["list_presets", "set_rule", "import_contacts", "forget", "prune", "list_tokens", "check_sources"]
)
def test_a_command_imports_neither_the_api_nor_the_console_nor_a_client_that_it_need_not_have(command: str) -> None:
    load = f"m.load_command_class(m.get_commands()['{command}'], '{command}')"
    work = f"import django.core.management as m; {load}"
    assert imported(work) <= ({"requests"} if command == "check_sources" else set())


def test_the_console_s_pages_are_checked_though_nothing_has_asked_for_them() -> None:
    work = "from django.core.checks import run_checks; assert not run_checks(tags=['admin'])"
    assert "accounts.admin" in imported(work)
