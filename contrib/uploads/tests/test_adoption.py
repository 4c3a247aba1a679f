"""A database from before uploads were an add-on keeps their rows, and has the schema of a new one."""

import pytest

from tests.adoption import columns_of, execute
from tests.test_upgrades import Installation

pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("phonebook_importchange", "phonebook_importpart", "phonebook_importupload")
#: Migrates a new database to the last version with the models in the kernel.
BEFORE = """
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
executor = MigrationExecutor(connection)
executor.loader = MigrationLoader(connection, replace_migrations=False)
leaves = [each for each in executor.loader.graph.leaf_nodes() if not executor.loader.disk_migrations[each].replaces]
targets = [each for each in leaves if each[0] != "phonebook"]
state = executor.migrate([*targets, ("phonebook", "0006_erase_permission")])
state.clear_delayed_apps_cache()
emit_post_migrate_signal(verbosity=0, interactive=False, db="default", apps=state.apps)
from django.contrib.auth.models import User
User.objects.create_user("olga")
"""
ROWS = """
INSERT INTO phonebook_importbatch
    (id, kind, state, "by", file_name, options, counts, faults, error, created_at, can_undo, undone_by, data_sets)
    VALUES (7, 'contacts', 'running', 'olga', 'people.csv', '{}', '{}', '[]', '', '2026-01-02', TRUE, '', '{}');
INSERT INTO phonebook_importchange (batch_id, row_id, is_removed, number) VALUES (7, 8, FALSE, 12125550100);
INSERT INTO phonebook_importupload
    (id, kind, state, file_name, options, size, received, created_at, step, seen_at, counts, faults, preview, error,
    batch_id, user_id)
    VALUES (9, 'contacts', 'importing', 'people.csv', '{}', 1, 1, '2026-01-02', '', '2026-01-02', '{}', '[]', '[]', '',
    7, 1);
INSERT INTO phonebook_importpart (id, upload_id, "offset", content) VALUES (10, 9, 0, 'x');
"""
KINDS = """
from django.contrib.contenttypes.models import ContentType
models = ("importchange", "importpart", "importupload")
print(sorted(ContentType.objects.filter(model__in=models).values_list("app_label", flat=True)))
"""


def migrate(installation: Installation, addons: str) -> None:
    installation.service.env["ADDONS"] = addons
    installation.migrate()


def run(installation: Installation, script: str) -> str:
    return installation.service.manage("shell", "--no-imports", "-v0", "-c", script).strip()


@pytest.mark.parametrize("is_switched_on_later", [False, True], ids=["at once", "later"])
def test_uploads_and_changes_stay(installations: list[Installation], is_switched_on_later: bool) -> None:
    old, new = installations
    old.service.env["ADDONS"] = "none"
    run(old, BEFORE)
    execute(old, ROWS)
    columns = columns_of(old, TABLES)
    before = old.rows(columns)
    assert all(before.values())
    assert run(old, KINDS) == "['phonebook', 'phonebook', 'phonebook']"
    if is_switched_on_later:
        migrate(old, "none")
        refused = old.service.run_command("check", "--database", "default").stderr
        assert "No add-on in ADDONS uses phonebook_importchange, phonebook_importpart" in refused
    migrate(old, "")
    migrate(new, "")
    assert old.rows(columns) == before
    assert old.schema() == new.schema()
    assert run(old, KINDS) == "['uploads', 'uploads', 'uploads']"
