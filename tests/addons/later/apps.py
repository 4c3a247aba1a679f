from core.addons import Addon


class Later(Addon):
    name = "tests.addons.later"
    requires = ("tests.addons.plain",)

    def ready(self) -> None:
        """Forgets what Addon.ready does."""
