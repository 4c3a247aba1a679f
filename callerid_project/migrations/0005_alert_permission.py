"""Grants the permission to view alerts to the roles, unless an operator took permissions from them."""

from importlib import import_module

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions
from django.db import migrations

_ROLES = import_module("callerid_project.migrations.0001_roles").ROLES


def _groups(apps, editor):
    """The roles that have all that 0001_roles gave them, and the new permission."""
    alias = editor.connection.alias
    permission = apps.get_model("auth", "Permission").objects.using(alias).filter(
        content_type__app_label="accounts", codename="view_incident"
    )
    for group in apps.get_model("auth", "Group").objects.using(alias).filter(name__in=_ROLES):
        names = group.permissions.values_list("content_type__app_label", "codename")
        if _ROLES[group.name] <= {f"{app}.{codename}" for app, codename in names}:
            yield group, permission


def grant(apps, editor):
    # Django makes permissions after all migrations: too late for a group that is to have them.
    create_permissions(installed.get_app_config("accounts"), verbosity=0, using=editor.connection.alias, apps=apps)
    for group, permission in _groups(apps, editor):
        group.permissions.add(*permission)


def revoke(apps, editor):
    for group, permission in _groups(apps, editor):
        group.permissions.remove(*permission)


class Migration(migrations.Migration):
    dependencies = [("callerid_project", "0004_customer_permissions"), ("accounts", "0008_incidents")]
    safe_because = "the version before ignores permissions that it does not know"
    operations = [migrations.RunPython(grant, revoke)]
