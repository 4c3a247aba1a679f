from django.apps import AppConfig


class LookupConfig(AppConfig):
    name = "lookup"

    def ready(self) -> None:
        from lookup import checks  # noqa: F401  (registers them)
