"""System checks: a source that cannot be bound, and a preset that is none, are told before the first search."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
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
    from lookup.connectors import preset, registry, samples

    errors: list[CheckMessage] = []
    for name, file in registry.presets().items():
        if name in registry.BUILT_IN:
            hint = "Give the file another name."
            errors.append(
                Error(f"{file.name}: {name} is a built-in source.", hint=hint, obj=str(file), id="lookup.E002")
            )
        try:
            loaded = preset.load(file)
            wrong = [f"{r.sample.title}: it {problem}" for r in samples.run(loaded) for problem in r.problems]
            if wrong:
                told = f"{file.name}: sample {'; '.join(wrong)}."
                hint = "Correct the sample or what reads it; check_sources --samples tells too."
                errors.append(Error(told, hint=hint, obj=str(file), id="lookup.E004"))
        except preset.EnvironmentLacks as error:
            errors.append(Error(str(error), hint=error.hint, obj=str(file), id="lookup.E002"))
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
