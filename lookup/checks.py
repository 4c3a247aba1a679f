"""System checks: a source that cannot be bound is told before the first search."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from lookup.search import SLOTS, members


@register
def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    errors: list[CheckMessage] = []
    for slot, (setting, _) in SLOTS.items():
        try:
            members(slot)
        except ImproperlyConfigured as error:
            errors.append(Error(str(error), hint=f"Correct {setting} in the environment.", id="lookup.E001"))
    return errors
