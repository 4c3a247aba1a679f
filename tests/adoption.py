"""Databases from before an add-on adopted a table: what refers to its models, before and after."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.test_upgrades import Installation

#: Migrates a new database to the target, although the migration was replaced by a squash, with the content types and
#: permissions of then. Then a role has one of the model's permissions, if it has any, as if the other had been taken
#: from it, and a group, a user and an entry of the History have the rest.
_BEFORE = """
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
executor = MigrationExecutor(connection)
executor.loader = MigrationLoader(connection, replace_migrations=False)
leaves = [each for each in executor.loader.graph.leaf_nodes() if not executor.loader.disk_migrations[each].replaces]
targets = [each for each in leaves if each[0] != {app!r}] + [({app!r}, {migration!r})]
state = executor.migrate(targets)
state.clear_delayed_apps_cache()
emit_post_migrate_signal(verbosity=0, interactive=False, db="default", apps=state.apps)
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
kind = ContentType.objects.get(app_label={app!r}, model={model!r})
permissions = list(Permission.objects.filter(content_type=kind).order_by("codename")[:2])
Group.objects.get(name="operator").permissions.add(*permissions[:1])
Group.objects.create(name="night shift").permissions.add(*permissions)
user = User.objects.create_user("olga")
user.user_permissions.add(*permissions[1:])
LogEntry.objects.create(user=user, content_type=kind, object_id="1", object_repr="x", action_flag=2)
"""
_HISTORY_OF_AN_OLD_PROCESS = """
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
kind = ContentType.objects.create(app_label={app!r}, model={model!r})
LogEntry.objects.create(user=User.objects.get(), content_type=kind, object_id="2", object_repr="x", action_flag=2)
"""
#: Of a model, by app: its permissions with their groups and users, and its entries of the History.
_REFERRING = """
import json
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
print(json.dumps({{
    kind.app_label: [
        {{
            each.codename: [
                sorted(group.name for group in each.group_set.all()), [user.username for user in each.user_set.all()]
            ]
            for each in Permission.objects.filter(content_type=kind).order_by("codename")
        }},
        [entry.object_id for entry in LogEntry.objects.filter(content_type=kind).order_by("pk")],
    ]
    for kind in ContentType.objects.filter(model={model!r})
}}))
"""


def sqlite(directory: Path) -> list[Installation]:
    found = []
    for name in ("old", "new"):
        connect = partial(sqlite3.connect, directory / name / "data" / "callerid.sqlite3")
        found.append(Installation(directory / name, "sqlite", connect, DATABASE_URL="", REDIS_URL=""))
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def installations(request: pytest.FixtureRequest, tmp_path: Path) -> list[Installation]:
    """Two, of which each has an empty database."""
    if request.param == "sqlite":
        return sqlite(tmp_path)
    servers: list[Installation] = request.getfixturevalue("postgresql")
    return servers


def columns_of(installation: Installation, tables: Iterable[str]) -> dict[str, list[str]]:
    """For Installation.rows. The tables exist."""
    columns = installation.columns()
    return {table: sorted(columns[table]) for table in tables}


def execute(installation: Installation, script: str) -> None:
    with installation.database() as database:
        (database.executescript if installation.vendor == "sqlite" else database.execute)(script)


class Adopted:
    """A model that was the kernel's `app` until after `migration`."""

    def __init__(self, installation: Installation, *, app: str, migration: str, model: str) -> None:
        self.installation, self._values = installation, {"app": app, "migration": migration, "model": model}

    def _run(self, script: str) -> str:
        return self.installation.service.manage("shell", "--no-imports", "-c", script.format(**self._values))

    def create_as_before(self) -> None:
        self.installation.service.env["ADDONS"] = "none"
        self._run(_BEFORE)

    def migrate(self, addons: str) -> None:
        """`addons`: the value of ADDONS: all if it is empty."""
        self.installation.service.env["ADDONS"] = addons
        self.installation.migrate()

    def write_history_as_before(self) -> None:
        """As a process of the version before, which still serves."""
        self._run(_HISTORY_OF_AN_OLD_PROCESS)

    def referring(self) -> dict[str, Any]:
        return dict(json.loads(self._run(_REFERRING)))


def assert_made_by_the_add_on_alone(
    installations: list[Installation], of: Callable[[Installation], Adopted], tables: Iterable[str]
) -> None:
    """A new database without the add-on has none of its `tables`; switched on later, it has the same as another one."""
    old, new = installations
    adopted = of(old)
    adopted.migrate("none")
    assert not set(tables) & old.columns().keys()
    adopted.migrate("")
    of(new).migrate("")
    assert old.schema() == new.schema()
