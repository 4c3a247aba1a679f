from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured


class LookupConfig(AppConfig):
    name = "lookup"

    def ready(self) -> None:
        register(sources_can_be_bound)


def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    """System check: reports a SOURCE_A or SOURCE_B that cannot be bound, before the first search."""
    from lookup.search import SLOTS, bound_sources  # which commands that need no source do not import

    errors: list[CheckMessage] = []
    for slot, (setting, _) in SLOTS.items():
        try:
            bound_sources(slot)
        except ImproperlyConfigured as error:
            hint = getattr(error, "hint", f"Correct {setting} in the environment.")
            errors.append(Error(str(error), hint=hint, id="lookup.E001"))
    return errors
