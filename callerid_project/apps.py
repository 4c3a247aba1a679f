from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig


class ProjectConfig(AppConfig):
    """The project itself is an app for its commands and the brake on the admin's login."""

    name = "callerid_project"


class AdminConfig(DjangoAdminConfig):
    default_site = "callerid_project.admin_site.BrakedAdminSite"
