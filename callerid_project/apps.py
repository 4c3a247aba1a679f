from typing import Any

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks
from django.core.signals import got_request_exception
from django.db.models.signals import post_migrate, pre_migrate

from callerid_project.logging import log_uncaught


class ProjectConfig(AppConfig):
    """The project is an app for its commands, its roles and the console's log of logins."""

    name = "callerid_project"

    def ready(self) -> None:
        from callerid_project import checks  # noqa: F401  (registers them)
        from callerid_project.console import (
            login_log,  # noqa: F401  (connects it to Django's signals)
            roles,
        )

        pre_migrate.connect(roles.note_permissions, sender=self)
        post_migrate.connect(roles.write_roles, sender=self)
        got_request_exception.connect(log_uncaught)


class AdminConfig(SimpleAdminConfig):
    """The console's pages are imported with the URLs (console/site.py), not by every command."""

    verbose_name = "Operators"  # the sidebar's section of the history
    default_site = "callerid_project.console.site.ThrottledAdminSite"

    def ready(self) -> None:
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    admin.autodiscover()
    return check_admin_app(app_configs, **kwargs)
