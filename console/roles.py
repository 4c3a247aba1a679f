"""Writes the console's roles, as groups: docs/roles.md says what each is for, `console.pages` what each may do.

`migrate` creates them. Permissions that a version adds go to the roles that should have them too, unless an operator
has taken one from the role. A group that had such a name before is someone's own and gets none, so that its members do
not get more by an upgrade.
"""

from typing import Any

from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.db import connections, transaction

from console import pages

#: What the holder of each role can do, for its form; from the role that may do least. As in docs/roles.md.
SENTENCES = {
    "viewer": "views customers, tokens, sources and what needs attention.",
    "auditor": (
        "views all data, including users and the History, except looked-up files; exports the ledger; changes nothing."
    ),
    "billing": "views customers, tokens, ledger and revenue; tops up tokens, within SUPPORT_CREDITS_PER_DAY.",
    "support": (
        "does everything viewer and billing can do; views requests and rules; refunds searches within that limit; "
        "tests numbers."
    ),
    "operator": (
        "does everything support can do, without the credit limit; issues and revokes tokens; edits customers and "
        "numbers."
    ),
}


def permissions_by_role() -> dict[str, set[str]]:
    """Only permissions that are new with a version reach roles that exist. To give an older one to another role takes a
    migration."""
    return {role: pages.permissions_of(role) for role in SENTENCES}


def write_roles(using: str, **kwargs: Any) -> None:
    """Receives post_migrate of `console`, which INSTALLED_APPS has before the other apps: Django creates the new
    permissions of each app at its own post_migrate, so those that exist now are older."""
    if Group._meta.db_table in connections[using].introspection.table_names():  # else only some app was migrated
        with transaction.atomic(using=using):  # an interrupted run leaves no role without its permissions
            _write_roles(using)


def _write_roles(using: str) -> None:
    roles = permissions_by_role()
    before = _names(Permission.objects.using(using))
    for label in sorted({name.partition(".")[0] for name in set().union(*roles.values())}):
        create_permissions(apps.get_app_config(label), verbosity=0, using=using)
    permissions = {_name(each): each for each in Permission.objects.using(using).select_related("content_type")}
    for role, granted in roles.items():
        group, is_new = Group.objects.using(using).get_or_create(name=role)
        kept = granted & before
        if is_new or (kept and kept <= _names(group.permissions)):
            group.permissions.add(*(permissions[name] for name in granted))


def _names(permissions: Any) -> set[str]:
    return {_name(each) for each in permissions.select_related("content_type")}


def _name(permission: Permission) -> str:
    return f"{permission.content_type.app_label}.{permission.codename}"
