"""The table was the kernel's in 0.1.0: its rows, permissions and History follow, whenever the add-on is switched on."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.adoption import columns_of, execute, sqlite
from tests.releases.make import HERE
from tests.test_upgrades import SET_SEQUENCES, Installation, postgresql, roles, with_roles

__all__ = ["postgresql", "roles"]
pytestmark = [pytest.mark.once, pytest.mark.slow]

TABLES = ("monitoring_requestlogentry",)

PERMISSION = (
    "(SELECT id FROM auth_permission WHERE content_type_id = (SELECT id FROM django_content_type"
    " WHERE app_label = 'monitoring' AND model = 'requestlogentry') AND codename = 'view_requestlogentry')"
)
#: Who has the permission beside the roles, a role from which it was taken, and an entry of the History.
GIVEN = f"""
INSERT INTO auth_group (name) VALUES ('night shift');
INSERT INTO auth_group_permissions (group_id, permission_id)
SELECT id, {PERMISSION} FROM auth_group WHERE name = 'night shift';
DELETE FROM auth_group_permissions WHERE permission_id = {PERMISSION}
AND group_id = (SELECT id FROM auth_group WHERE name = 'auditor');
DELETE FROM auth_user_user_permissions;
INSERT INTO auth_user_user_permissions (user_id, permission_id) SELECT min(id), {PERMISSION} FROM auth_user;
INSERT INTO django_admin_log
(action_time, object_id, object_repr, action_flag, change_message, content_type_id, user_id)
SELECT CURRENT_TIMESTAMP, '1', 'kept', 2, '', content_type_id, (SELECT min(id) FROM auth_user)
FROM auth_permission WHERE id = {PERMISSION};
"""
HOLDERS = """
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
import json
permission = Permission.objects.get(codename="view_requestlogentry")
groups = sorted(group.name for group in permission.group_set.all())
users = [user.pk for user in permission.user_set.all()]
history = [entry.content_type.natural_key() for entry in LogEntry.objects.filter(object_repr="kept")]
print(json.dumps([permission.content_type.natural_key(), groups, users, history]))
"""


def upgraded(installation: Installation, names: dict[str, str], *addons: str) -> tuple[list[Any], list[str]]:
    """Who may view the log, the content types of the History, and the rows, after a `migrate` with each `addons`."""
    text = with_roles((HERE / f"0.1.0.{installation.vendor}.sql").read_text(encoding="utf-8"), names)
    execute(installation, text)
    if installation.vendor == "postgresql":
        execute(installation, SET_SEQUENCES)
    execute(installation, GIVEN)
    columns = columns_of(installation, TABLES)
    before = installation.rows(columns)
    assert all(before.values())
    for chosen in addons:
        installation.service.env["ADDONS"] = chosen
        installation.migrate()
    assert installation.rows(columns) == before
    holders = json.loads(installation.service.manage("shell", "--no-imports", "-c", HOLDERS))
    return holders, installation.schema()[0]


def require_same(installations: list[Installation], names: dict[str, str]) -> None:
    at_once, later = installations
    found, schema = upgraded(at_once, names, "request_log")
    moved = ["request_log", "requestlogentry"]
    assert found[0] == moved
    assert found[1] == ["night shift", "operator", "support"]
    assert len(found[2]) == 1
    assert found[3] == [moved]
    assert upgraded(later, names, "none", "request_log") == (found, schema)


def test_sqlite_database_keeps_rows_and_permissions(tmp_path: Path) -> None:
    require_same(sqlite(tmp_path), {})


def test_postgresql_database_keeps_rows_and_permissions(postgresql: list[Installation], roles: dict[str, str]) -> None:
    require_same(postgresql, roles)
