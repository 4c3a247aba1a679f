"""System checks: a source that cannot be bound, and a preset with a fault, are reported before the first search.

A fault of a preset is an error where a slot is bound to it, and a warning else: it stops nothing that does not use it.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

# Each check imports what it needs: every command imports this, and most need no source.


@register
def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    from lookup.connectors import preset, registry
    from lookup.search import SLOTS, members

    errors: list[CheckMessage] = []
    for slot, (setting, _) in SLOTS.items():
        try:
            members(slot)
        except registry.NoPreset:
            pass  # E002, below
        except preset.EnvironmentLacks as error:
            errors.append(Error(str(error), hint=error.hint, id="lookup.E003"))
        except ImproperlyConfigured as error:
            errors.append(Error(str(error), hint=f"Correct {setting} in the environment.", id="lookup.E001"))
    return errors


@register
def presets_are_valid(**kwargs: Any) -> list[CheckMessage]:
    """All of them, bound or not: one that nobody uses today may be bound tomorrow."""
    from lookup.connectors import registry
    from lookup.search import SLOTS

    bound = {word.strip() for setting, _ in SLOTS.values() for word in getattr(settings, setting).split(",")}
    messages: list[CheckMessage] = []
    for name, file in registry.presets().items():
        messages += _of_preset(name, file, is_bound=name in bound)
    return messages


def _of_preset(name: str, file: Path, *, is_bound: bool) -> list[CheckMessage]:
    from lookup.connectors import preset, registry, samples

    messages: list[CheckMessage] = []

    def fault(message: str, hint: str, number: int) -> None:
        kind, letter = (Error, "E") if is_bound else (Warning, "W")
        messages.append(kind(message, hint=hint, obj=str(file), id=f"lookup.{letter}{number:03d}"))

    if name in registry.BUILT_IN:
        fault(f"{file.name}: {name} is a built-in source.", "Give the file another name.", 2)
    try:
        loaded = preset.load(file)
        results = samples.run(loaded)
    except preset.EnvironmentLacks as error:
        fault(str(error), error.hint, 2)
        return messages
    except preset.Invalid as error:
        fault(f"{error}.", f"Correct {error.key or 'it'} in {file}; docs/presets.md tells every key.", 2)
        return messages
    if wrong := [f"{result.sample.title}: it {problem}" for result in results for problem in result.problems]:
        hint = "Correct the sample or what reads it; check_sources --samples tells too."
        fault(f"{file.name}: sample {'; '.join(wrong)}.", hint, 4)
    if unreached := samples.unreached_rules(loaded, results):
        hint = "Add a sample whose answer each of them must recognise, or delete the rule."
        messages.append(Warning(f"{file.name}: {unreached}.", hint=hint, obj=str(file), id="lookup.W005"))
    return messages
