"""Grants the permissions on the request log to the roles, unless an operator took permissions from them."""

from importlib import import_module

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

_ROLES = import_module("callerid_project.migrations.0001_roles").ROLES
GRANTS = {role: ["view_requestlogentry"] for role in ("support", "operator", "auditor")}


def _groups(apps, editor):
    """The groups of GRANTS that have all that 0001_roles gave them, and their new permissions."""
    alias = editor.connection.alias
    groups = apps.get_model("auth", "Group").objects.using(alias)
    permissions = apps.get_model("auth", "Permission").objects.using(alias)
    for group in groups.filter(name__in=GRANTS):
        names = group.permissions.values_list("content_type__app_label", "codename")
        if _ROLES[group.name] <= {f"{app}.{codename}" for app, codename in names}:
            yield group, permissions.filter(content_type__app_label="lookup", codename__in=GRANTS[group.name])


def grant(apps, editor):
    # Django makes permissions after all migrations: too late for a group that is to have them.
    create_permissions(installed.get_app_config("lookup"), verbosity=0, using=editor.connection.alias, apps=apps)
    for group, permissions in _groups(apps, editor):
        group.permissions.add(*permissions)


def revoke(apps, editor):
    for group, permissions in _groups(apps, editor):
        group.permissions.remove(*permissions)


class Migration(migrations.Migration):
    dependencies = [("callerid_project", "0005_alert_permission"), ("lookup", "0004_request_log")]
    safe_because = "the version before ignores permissions that it does not know"
    operations = [migrations.RunPython(grant, revoke)]
