from django.apps import AppConfig

from core.console_search import KINDS, Kind


class MonitoringConfig(AppConfig):
    name = "monitoring"

    def ready(self) -> None:
        from monitoring import receivers  # noqa: F401  (connects them)

        find, model = "monitoring.admin.requests.found", "monitoring.requestlogentry"
        KINDS.add(Kind("Request log", "request id or number", find, model))
