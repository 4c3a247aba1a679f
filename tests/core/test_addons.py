"""The kernel works without add-ons, and says what is wrong with those that are chosen."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from callerid_project.system_checks import check_variables_of_absent_addons
from core import addons
from core.hooks import Hook
from tests.plugin import ROOT

PLAIN, LATER = "tests.addons.plain", "tests.addons.later"
KERNEL = ["accounts", "callerid_project", "console", "core", "lookup", "monitoring", "phonebook"]


def manage(tmp_path: Path, *arguments: str, **environment: str) -> str:
    """What the command says, in an installation of its own."""
    command = [sys.executable, "manage.py", *arguments]
    env = {"PATH": os.environ["PATH"], "CALLERID_DATA_DIR": str(tmp_path / "data"), **environment}
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return ended.stdout if ended.returncode == 0 else ended.stderr


def test_items_of_a_hook_are_in_their_order() -> None:
    hook = Hook[str]()
    hook.add("b", "c")
    hook.add("d", order=1)
    hook.add("a", order=-1)
    assert list(hook) == ["a", "b", "c", "d"]


def test_all_of_the_folder_are_chosen_or_none_or_some() -> None:
    assert addons.chosen("") == addons.in_package()
    assert addons.chosen("none") == []
    assert addons.chosen(f"{LATER}, {PLAIN}") == [LATER, PLAIN]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("elsewhere", "ADDONS has elsewhere, but there is no such add-on."),
        ("tests.addons.absent", "ADDONS has tests.addons.absent, but there is no such add-on."),
        ("none,elsewhere", "ADDONS has none, but there is no such add-on."),
        ("..", "ADDONS has .., but there is no such add-on."),
        (LATER, f"ADDONS has {LATER}, which requires {PLAIN}: add it."),
    ],
)
def test_add_on_that_cannot_be_used_ends_the_start(value: str, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^{said}"):
        addons.chosen(value)


def test_library_that_an_add_on_misses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """posit-dev/py-shiny#116: an import error within the package passed for a package that is not there."""
    (tmp_path / "broken_addon").mkdir()
    (tmp_path / "broken_addon" / "__init__.py").write_text("import absent_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="No module named 'absent_library'"):
        addons.load("broken_addon.addon")


def test_settings_of_an_add_on_are_read_and_checked(tmp_path: Path) -> None:
    print_it = ("shell", "--no-imports", "-c", "from django.conf import settings; print(settings.PLAIN_COUNT)")
    assert manage(tmp_path, *print_it, ADDONS=PLAIN, PLAIN_COUNT="7") == "7\n"
    said = manage(tmp_path, "check", ADDONS=PLAIN, PLAIN_COUNT="many")
    assert "PLAIN_COUNT must be a whole number from 1" in said


def test_variable_of_an_absent_add_on_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addons, "in_package", lambda: [PLAIN])
    assert check_variables_of_absent_addons() == []
    monkeypatch.setenv("PLAIN_COUNT", "many")
    (warning,) = check_variables_of_absent_addons()
    assert str(warning.id) == "callerid.W003"
    assert warning.msg == f"PLAIN_COUNT: set, but ignored without the add-on {PLAIN}."


def test_add_on_that_registers_nothing_is_an_error(tmp_path: Path) -> None:
    said = manage(tmp_path, "check", ADDONS=f"{PLAIN},{LATER}")
    assert f"(callerid.E001) The add-on {LATER} did not register anything" in said
    assert PLAIN not in said.replace(LATER, "")


def test_kernel_starts_without_add_ons(tmp_path: Path) -> None:
    assert manage(tmp_path, "check", ADDONS="none") == "System check identified no issues (0 silenced).\n"
    loaded = "import sys; print([name for name in sys.modules if name.partition('.')[0] == 'contrib'])"
    said = manage(tmp_path, "shell", "--no-imports", "-c", f"import callerid_project.asgi; {loaded}", ADDONS="none")
    assert said.splitlines()[-1] in ("[]", "['contrib']")  # find_spec loads the package, which is empty


def test_add_on_uses_every_hook(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return manage(tmp_path, *arguments, ADDONS=PLAIN)

    run("migrate")
    assert json.loads(run("prune", "--json"))["plain_rows"] == 11
    assert ", plain rows after 9 days, " in " ".join(run("prune", "--help").split())
    said = run("forget", "+44 7700 900123")
    assert "Plain numbers: 1. Plain files: 1." in said
    script = """
from io import BytesIO
from django.contrib.auth.models import Group, User
from django.test import Client
from console import pages
from accounts import customers, tokens
from console import erasure
from core.console_search import KINDS
from phonebook.imports import COMPLAINT_FORMATS, data_sets
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import open_text
from phonebook.models import NumberRule
from tests.addons.plain.services import called
import callerid_project.asgi
viewer = User.objects.create_user("v", password="v", is_staff=True)
viewer.groups.add(Group.objects.get(name="viewer"))
client = Client(headers={"host": "localhost"})
client.force_login(viewer)
print(client.get("/plain").text, client.get("/admin/plain/").text, viewer.has_perm("accounts.change_customer"))
print(erasure.count(["447700900123"])["plain_numbers"], called)
customer = f"/admin/accounts/customer/{customers.create(name='Example Ltd').pk}"
print(f'href="{customer}/greet/"' in client.get(f"{customer}/change/").text, end=" ")
print("Hello, Example Ltd (#1)." in client.post(f"{customer}/greet/", follow=True).text)
response = client.get("/admin/")
print([part in response.text for part in ("Plain header", "/static/plain.css", "/static/plain.js", "search-input")])
print([part in response.text for part in ("Plain sentence.", "attention")], "failing_since" in called)
print(client.get("/admin/search/?s=token").status_code, [kind.title for kind in KINDS])
request = response.wsgi_request
request.user = viewer
numbers = next(each for each in pages.sidebar(request) if each["title"] == "Numbers")
actions = pages.permitted(request, pages.actions())
print([each["title"] for each in numbers["items"]], actions[-1].title)
token = tokens.issue(name="pbx", actor="v").token
print('href="/plain?token=' in client.get(f"/admin/accounts/apitoken/{token.pk}/change/").text, end=" ")
viewer.groups.add(Group.objects.get(name="operator"))
rule = NumberRule.objects.create(number=447700900123, spam=True)
print("Plain page of this number" in client.get(f"/admin/phonebook/numberrule/{rule.pk}/change/").text, end=" ")
text = client.get("/admin/status/").text
print("43 requests a minute" in text, "Plain chart" in text, end=" ")
print("Section of 20" in client.get("/admin/monitoring/source/").text)
viewer.groups.remove(Group.objects.get(name="operator"))
auditor = User.objects.create_user("a", is_staff=True)
auditor.groups.add(Group.objects.get(name="auditor"))
for user in (viewer, auditor):
    client.force_login(user)
    print("Block of v, 20" in client.get("/admin/").text)
called.clear()
for name in (b"Ann", b"Bob"):
    file = open_text("people.csv", content=BytesIO(b"number,name\\n447700900123," + name))
    ContactImport(on_reject=print).run([file])
print(called)
print(ContactImport(on_reject=print).run([open_text("plain", content=BytesIO(b"plain\\n"))]).formats, end=" ")
print([each.name for each in COMPLAINT_FORMATS], data_sets.published())
"""
    assert run("shell", "--no-imports", "-c", script).splitlines() == [
        "plain plain True",
        "1 ['start']",
        "True True",
        "[True, True, True, False]",
        "[True, True] True",
        "404 ['Plain kind']",
        "['Plain page'] Do it",
        "True True True True True",
        "True",
        "False",
        "['Ann False']",
        "['plain'] ['plain', 'csv'] ['plain']",
    ]


def test_every_hook_is_documented() -> None:
    page = (ROOT / "docs" / "writing-add-ons.md").read_text(encoding="utf-8")
    found = 0
    for path in (path for app in KERNEL for path in (ROOT / app).rglob("*.py")):
        for names in re.findall(r"^([A-Z_, ]+) = Hook\[", path.read_text(encoding="utf-8"), re.MULTILINE):
            for name in names.split(", "):
                assert f"`{name}`" in page, path
                found += 1
    assert found > 10


def test_content_types_are_moved_at_each_migrate(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        return manage(tmp_path, *arguments, ADDONS=PLAIN)

    for state in ("at first", "created again"):
        run("migrate")
        named = "from django.contrib.contenttypes.models import ContentType as T; rows = T.objects.filter(model='row')"
        created = "T.objects.create(app_label='plain_before', model='row')"
        run("shell", "--no-imports", "-c", f"{named}; {created}")
        run("migrate")
        said = run("shell", "--no-imports", "-c", f"{named}; print([each.app_label for each in rows])")
        assert said == "['plain']\n", state


def test_migrations_of_an_add_on_are_ours(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", ADDONS=PLAIN)
    script = """
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from core import schema_state
MigrationRecorder(connection).record_applied("plain", "9999_newer")
print(schema_state.explanation())
"""
    said = manage(tmp_path, "shell", "--no-imports", "-c", script, ADDONS=PLAIN)
    assert said.startswith("The database was migrated by a newer version (plain.9999_newer)")


def test_imports_of_add_ons_are_those_that_they_require(tmp_path: Path) -> None:
    """Nothing of the kernel imports one."""
    names = addons.in_package()
    if not names:
        pytest.skip("there are no add-ons")
    packages = "".join(f"    {name}\n" for name in (*KERNEL, addons.PACKAGE))
    contracts = [f"name = kernel\ntype = forbidden\nsource_modules =\n{packages.replace('    contrib', '')}"]
    for name in names:
        others = [other for other in names if other != name and other not in addons.load(name).requires]
        if others:
            listed = "".join(f"    {addons.PACKAGE}.{other}\n" for other in others)
            contracts.append(f"name = {name}\ntype = forbidden\nsource_modules = {addons.PACKAGE}.{name}\n")
            contracts[-1] += f"allow_indirect_imports = true\nforbidden_modules =\n{listed}"
    contracts[0] += f"forbidden_modules = {addons.PACKAGE}\n"
    config = tmp_path / "importlinter.ini"
    parts = [f"[importlinter:contract:{number}]\n{contract}" for number, contract in enumerate(contracts)]
    config.write_text(f"[importlinter]\nroot_packages =\n{packages}\n" + "\n".join(parts))
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [linter, "--config", config, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Contracts: {len(contracts)} kept, 0 broken." in ended.stdout
