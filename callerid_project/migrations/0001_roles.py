"""The console's roles, as groups: docs/roles.md says what each is for. What an operator has made of them stays."""

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

_NUMBERS = ("contact", "complaintday", "numberrule")

_VIEWER = {"accounts.view_apitoken", "lookup.view_usage"}
_SUPPORT = _VIEWER | {
    "accounts.view_creditentry",
    "accounts.view_notice",
    "accounts.top_up_apitoken",
    "accounts.refund_creditentry",
    "lookup.view_numberrule",
}
_OPERATOR = _SUPPORT | {
    *(f"accounts.{action}_apitoken" for action in ("add", "change", "adjust", "rotate", "revoke")),
    "accounts.give_any_credits",
    "accounts.export_creditentry",
    "accounts.change_notice",
    *(f"lookup.{action}_{model}" for action in ("view", "add", "change", "delete") for model in _NUMBERS),
}
_AUDITOR = _VIEWER | {
    "accounts.view_creditentry",
    "accounts.export_creditentry",
    "accounts.view_notice",
    *(f"lookup.view_{model}" for model in _NUMBERS),
    "admin.view_logentry",
    "auth.view_user",
    "auth.view_group",
}
ROLES = {"viewer": _VIEWER, "support": _SUPPORT, "operator": _OPERATOR, "auditor": _AUDITOR}


def _names(permissions):
    return {f"{app}.{codename}" for app, codename in permissions.values_list("content_type__app_label", "codename")}


def create_roles(apps, editor):
    """A group that has such a name already is someone's own, and its members must not get more by an upgrade."""
    alias = editor.connection.alias
    for label in ("accounts", "lookup", "admin", "auth"):
        # Django makes permissions after all migrations: too late for a group that is to have them.
        create_permissions(installed.get_app_config(label), verbosity=0, using=alias, apps=apps)
    groups = apps.get_model("auth", "Group").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    for name, granted in ROLES.items():
        group, is_new = groups.get_or_create(name=name)
        if is_new:
            parts = (permission.split(".") for permission in sorted(granted))
            group.permissions.set([permissions.get(content_type__app_label=a, codename=c) for a, c in parts])


def delete_unused_roles(apps, editor):
    """Delete the roles that are unchanged and have no members."""
    for group in apps.get_model("auth", "Group").objects.using(editor.connection.alias).filter(name__in=ROLES):
        if not group.user_set.exists() and _names(group.permissions) == ROLES[group.name]:
            group.delete()


class Migration(migrations.Migration):
    initial = True
    dependencies = [
        ("accounts", "0001_initial"),
        ("lookup", "0001_initial"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = [migrations.RunPython(create_roles, delete_unused_roles)]
