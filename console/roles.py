"""The console's roles, as groups: docs/roles.md says what each is for. `migrate` creates them.

Permissions that a version adds go to the roles of this table too, unless an operator has taken one from the role. A
group that had such a name before is someone's own and gets none, so that its members do not get more by an upgrade.
"""

from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db import connections, transaction

_NUMBERS = ("contact", "complaintday", "numberrule")

_VIEWER = {
    "accounts.view_apitoken",
    "accounts.view_customer",
    "monitoring.view_incident",
    "monitoring.view_source",
}
_SUPPORT = _VIEWER | {
    "accounts.view_creditentry",
    "monitoring.view_notice",
    "accounts.top_up_apitoken",
    "accounts.refund_creditentry",
    "phonebook.view_numberrule",
    "monitoring.view_requestlogentry",
    "monitoring.test_lookup",
}
_OPERATOR = _SUPPORT | {
    *(f"accounts.{action}_apitoken" for action in ("add", "change", "adjust", "rotate", "revoke")),
    *(f"accounts.{action}_customer" for action in ("add", "change", "delete")),
    *(f"phonebook.{action}_{model}" for action in ("view", "add", "change", "delete") for model in _NUMBERS),
    "accounts.give_any_credits",
    "accounts.export_creditentry",
    "monitoring.change_notice",
    "monitoring.check_source",
    "monitoring.pause_source",
}
_AUDITOR = _VIEWER | {
    "accounts.view_creditentry",
    "accounts.export_creditentry",
    "monitoring.view_notice",
    "monitoring.view_requestlogentry",
    *(f"phonebook.view_{model}" for model in _NUMBERS),
    "admin.view_logentry",
    "auth.view_user",
    "auth.view_group",
}
#: Only permissions that are new with a version reach roles that exist. To give an older one to another role takes a
#: migration.
ROLES = {"viewer": _VIEWER, "support": _SUPPORT, "operator": _OPERATOR, "auditor": _AUDITOR}

#: By database, the permissions before `migrate`.
_before: dict[str, set[str]] = {}


def note_permissions(using: str, **kwargs: Any) -> None:
    """Receives pre_migrate."""
    _before[using] = _names(Permission.objects.using(using)) if _has_tables(using) else set()


def write_roles(using: str, **kwargs: Any) -> None:
    """Receives post_migrate."""
    if _has_tables(using):  # otherwise only some app was migrated
        with transaction.atomic(using=using):  # an interrupted run leaves no role without its permissions
            _write_roles(using)


def _write_roles(using: str) -> None:
    for label in sorted({name.partition(".")[0] for name in set().union(*ROLES.values())}):
        create_permissions(apps.get_app_config(label), verbosity=0, using=using)  # Django makes some later
    permissions = {_name(each): each for each in Permission.objects.using(using).select_related("content_type")}
    before = _before.pop(using, set())
    for role, granted in ROLES.items():
        group, is_new = Group.objects.using(using).get_or_create(name=role)
        kept = granted & before
        if is_new or (kept and kept <= _names(group.permissions)):
            group.permissions.add(*(permissions[name] for name in granted))


def _has_tables(using: str) -> bool:
    return Group._meta.db_table in connections[using].introspection.table_names()


def _names(permissions: Any) -> set[str]:
    return {_name(each) for each in permissions.select_related("content_type")}


def _name(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"
