"""Commands do not import what they do not need: their start-up time, measured in modules instead of seconds."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate

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
#: Only pages, commands and health checks need these.
FOR_PAGES = {
    "accounts.admin",
    "console.login_log",
    "console.site",
    "monitoring.health.checks",
    "monitoring.source_report",
    "phonebook.imports.pipeline",
    "unfold.admin",
}


def imported(work: str, setup: str = "django.setup()") -> set[str]:
    """The modules that a process with the default settings has imported after `work`."""
    script = f"import sys, django; {setup}; {work}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("command", ["set_rule", "import_contacts", "forget", "prune", "list_tokens", "check_sources"])
def test_commands_import_neither_api_nor_console_nor_clients(command: str) -> None:
    load = f"m.load_command_class(m.get_commands()['{command}'], '{command}')"
    work = f"import django.core.management as m; {load}"
    assert imported(work).intersection(EXPENSIVE) <= ({"requests"} if command == "check_sources" else set())


def test_search_instance_does_not_import_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVE", "search")
    assert not FOR_PAGES & imported("import callerid_project.asgi", setup="pass")
    monkeypatch.setenv("SERVE", "all")
    only_by_use = {"monitoring.health.checks"}  # unless an add-on imports it before
    assert FOR_PAGES - imported("import callerid_project.asgi", setup="pass") <= only_by_use


def test_asgi_reaches_few_modules_by_imports() -> None:
    """Of ours, by imports at the top of modules; packages without code do not count. If this fails, see whether
    searches need what is new: a function may belong to a smaller module."""
    found = reached_from("callerid_project.asgi")
    assert len(found) <= 75, sorted(found)


def reached_from(start: str) -> set[str]:
    found: dict[str, bool] = {}
    left = [start]
    while left:
        if (name := left.pop()) in found:
            continue
        path = ROOT / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.is_file():
            body = ast.parse(file.read_text(encoding="utf-8")).body
            found[name] = not path.is_dir() or any(not isinstance(each, ast.Expr) for each in body)
            left += imported_names(body)
    return {name for name, has_code in found.items() if has_code}


def imported_names(body: list[ast.stmt]) -> Iterator[str]:
    """Of modules, their packages, and what `from` imports, which may be a module."""
    for each in body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            module = [each.module] if isinstance(each, ast.ImportFrom) and each.module else []
            for alias in each.names:
                parts = ".".join([*module, alias.name]).split(".")
                yield from accumulate(parts, "{}.{}".format)


def test_the_console_pages_are_checked_although_imported_lazily() -> None:
    work = "from django.core.checks import run_checks; assert not run_checks(tags=['admin'])"
    assert "accounts.admin" in imported(work)
