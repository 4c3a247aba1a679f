"""System checks: a source that cannot be bound is told before the first search."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from lookup.connectors.registry import bind
from lookup.search import SLOTS


@register
def sources_can_be_bound(**kwargs: Any) -> list[CheckMessage]:
    errors: list[CheckMessage] = []
    for setting, _ in SLOTS.values():
        try:
            bind(setting, getattr(settings, setting))
        except ImproperlyConfigured as error:
            errors.append(Error(str(error), hint=f"Correct {setting} in the environment.", id="lookup.E001"))
    return errors
