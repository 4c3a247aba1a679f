from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.db.models.signals import post_migrate

from console import pages


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self) -> None:
        from console import roles

        post_migrate.connect(roles.write_roles, sender=self)


class AdminConfig(SimpleAdminConfig):
    """The console's pages are imported with the URLs (console/site.py), not by every command."""

    verbose_name = "Operators"  # the sidebar's section of the history
    default_site = "console.site.ConsoleSite"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    pages.discover()
    return check_admin_app(app_configs, **kwargs)
