from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "Tokens and credits"

    def ready(self) -> None:
        from accounts.postgresql import server_log  # noqa: F401  (registers its check)
