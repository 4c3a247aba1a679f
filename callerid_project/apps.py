from django.apps import AppConfig
from django.core.signals import got_request_exception

from callerid_project.logging import log_uncaught


class ProjectConfig(AppConfig):
    """The project is an app for its commands."""

    name = "callerid_project"

    def ready(self) -> None:
        from callerid_project import system_checks  # noqa: F401  (registers them)

        got_request_exception.connect(log_uncaught)
