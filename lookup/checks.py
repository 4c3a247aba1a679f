"""System checks: sources that cannot be bound and invalid presets are reported before the first search.

An invalid preset is an error if a slot is bound to it, otherwise a warning.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Warning, register
from django.core.exceptions import ImproperlyConfigured

# Each check imports what it needs: every command imports this module, and most need no source.


@register
def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    from lookup.search import SLOTS, members
    from lookup.vendors import preset

    errors: list[CheckMessage] = []
    for slot, (setting, _) in SLOTS.items():
        try:
            members(slot)
        except preset.InvalidPreset:
            pass  # E002, below
        except preset.MissingEnvironment as error:
            errors.append(Error(str(error), hint=error.hint, id="lookup.E003"))
        except ImproperlyConfigured as error:
            errors.append(Error(str(error), hint=f"Correct {setting} in the environment.", id="lookup.E001"))
    return errors


@register
def presets_are_valid(**kwargs: Any) -> list[CheckMessage]:
    """Checks all presets: one that is unused today may be bound tomorrow."""
    from lookup.connectors import registry
    from lookup.search import SLOTS

    bound = {word.strip() for setting, _ in SLOTS.values() for word in getattr(settings, setting).split(",")}
    presets = registry.presets().items()
    return [message for name, file in presets for message in _of_preset(name, file, is_bound=name in bound)]


def _of_preset(name: str, file: Path, *, is_bound: bool) -> Iterator[CheckMessage]:
    from lookup.connectors import registry
    from lookup.vendors import preset, preset_samples

    def fault(message: str, hint: str, number: int) -> CheckMessage:
        kind, letter = (Error, "E") if is_bound else (Warning, "W")
        return kind(message, hint=hint, obj=str(file), id=f"lookup.{letter}{number:03d}")

    if name in registry.BUILT_IN:
        yield fault(f"{file.name}: {name} is a built-in source.", "Give the file another name.", 2)
    try:
        loaded = preset.load(file)
        results = preset_samples.run(loaded)
    except preset.MissingEnvironment as error:
        yield fault(str(error), error.hint, 2)
    except preset.InvalidPreset as error:
        yield fault(f"{error}.", f"Correct {error.key or 'it'} in {file}; docs/presets.md describes every key.", 2)
    else:
        for number, rule in enumerate(loaded.rules, start=1):
            if rule.status_alone:
                statuses = ", ".join(map(str, rule.status))
                note = f"outcome[{number}]: {statuses} is {rule.outcome}, whatever the body ({rule.status_alone})"
                hint = "Give the rule `when` or `text` if the vendor documents a body: a proxy's page has a status too."
                yield Info(f"{file.name}: {note}.", hint=hint, obj=str(file), id="lookup.I006")
        if wrong := [f"{result.sample.title}: it {problem}" for result in results for problem in result.problems]:
            hint = "Correct the sample, or the preset's rules; run check_sources --samples to check again."
            yield fault(f"{file.name}: sample {'; '.join(wrong)}.", hint, 4)
        if unreached := preset_samples.unreached_rules(loaded, results):
            hint = "Add a sample that each rule recognizes, or delete the rule."
            yield Warning(f"{file.name}: {unreached}.", hint=hint, obj=str(file), id="lookup.W005")
