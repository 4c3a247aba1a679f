"""System checks: a source that cannot be bound, and a preset that is none, are told before the first search."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from lookup.connectors import preset, registry
from lookup.connectors.json_api import EnvironmentLacks
from lookup.search import SLOTS, members


@register
def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    errors: list[CheckMessage] = []
    for slot, (setting, _) in SLOTS.items():
        try:
            members(slot)
        except registry.NoPreset:
            pass  # E002, below
        except EnvironmentLacks as error:
            errors.append(Error(str(error), hint=error.hint, id="lookup.E003"))
        except ImproperlyConfigured as error:
            errors.append(Error(str(error), hint=f"Correct {setting} in the environment.", id="lookup.E001"))
    return errors


@register
def presets_are_valid(**kwargs: Any) -> list[CheckMessage]:
    """All of them, bound or not: one that nobody uses today may be bound tomorrow."""
    errors: list[CheckMessage] = []
    for file in registry.presets().values():
        try:
            preset.load(file)
        except preset.Invalid as error:
            errors.append(
                Error(
                    f"{error}.",
                    hint=f"Correct {error.key or 'it'} in {file}; docs/presets.md tells every key.",
                    obj=str(file),
                    id="lookup.E002",
                )
            )
    return errors
