from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig
from django.core.signals import got_request_exception


class ProjectConfig(AppConfig):
    """The project itself is an app for its commands and the brake on the admin's login."""

    name = "callerid_project"

    def ready(self) -> None:
        from callerid_project.errors import log_uncaught

        got_request_exception.connect(log_uncaught)


class AdminConfig(DjangoAdminConfig):
    default_site = "callerid_project.admin_site.BrakedAdminSite"
