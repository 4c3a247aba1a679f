"""Turns SOURCE_A and SOURCE_B into connectors: comma-separated names of built-in sources and presets, and dotted paths
of classes."""

import os
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from core import loop
from lookup.answers import FIELDS
from lookup.connectors.base import Connector
from lookup.vendors import preset
from lookup.vendors.authentication import ENVIRONMENT_NAME
from lookup.vendors.guard import Guard

BUILT_IN = {
    "complaints": "lookup.connectors.tables.Complaints",
    "directory": "lookup.connectors.tables.Directory",
    "geography": "lookup.connectors.geography.Geography",
}


@dataclass(frozen=True, slots=True, eq=False)
class BoundSource:
    """A connector that a slot is bound to. `name`: its name in the setting. `guard`: of a remote one."""

    name: str
    connector: Connector
    guard: Guard | None = None


@lru_cache(maxsize=16)
def bind(setting: str, names: str, fields: frozenset[str]) -> tuple[BoundSource, ...]:
    """The connectors that `names` (comma-separated) stand for, in order. Each has one object and one guard per process,
    and supplies some of `fields`.

    `setting`: what the operator has to change, for the message. Raises ImproperlyConfigured.
    """
    listed = [name.strip() for name in names.split(",")]
    if not all(listed):
        raise ImproperlyConfigured(f"{setting} must name a source, or several separated by commas. {_known()}")
    if duplicate := next((name for name in listed if listed.count(name) > 1), None):
        raise ImproperlyConfigured(f"{setting} names '{duplicate}' twice.")
    try:
        bound = tuple(get_source(name) for name in listed)
    except ImproperlyConfigured as error:
        error.args = (f"{setting}: {error}",)
        raise
    for source in bound:
        if not source.connector.fields & fields:
            raise ImproperlyConfigured(
                f"{setting}: '{source.name}' supplies only {' and '.join(sorted(source.connector.fields))}, "
                f"but this slot has {' and '.join(sorted(fields))}."
            )
    return bound


def presets() -> dict[str, Path]:
    """Name → file of every preset: the shipped ones, and those in PRESET_DIR, which take precedence."""
    own = preset.folder(Path(settings.PRESET_DIR)) if settings.PRESET_DIR else {}
    return {**preset.folder(preset.SHIPPED), **own}


_sources: dict[str, BoundSource] = {}
_binding = threading.Lock()


def get_source(name: str) -> BoundSource:
    """Connector and guard of that name, created when first needed. Raises ImproperlyConfigured."""
    with _binding:
        if name not in _sources:
            connector = _connector(name)
            guard = Guard(name, connector) if connector.remote else None
            _sources[name] = BoundSource(name, connector, guard)
        return _sources[name]


def reset() -> None:
    """Forget all connectors, after waiting for calls in flight: the next search binds them again, from the settings,
    environment and presets of that moment."""
    with _binding:
        for source in _sources.values():
            if source.guard:
                loop.run(source.guard.close())
        _sources.clear()
        bind.cache_clear()


def _connector(name: str) -> Connector:
    if name in BUILT_IN:
        return _from_class(name, BUILT_IN[name])
    if file := presets().get(name):
        from lookup.vendors.json_api import JsonApi  # imports an HTTP client, which built-in sources do not need

        return JsonApi(preset.load(file), os.environ)
    if "." in name:
        return _from_class(name, name)
    raise ImproperlyConfigured(f"there is no source '{name}'. {_known()}")


def _from_class(name: str, path: str) -> Connector:
    try:
        cls = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"'{name}' cannot be imported: {error}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Connector)):
        raise ImproperlyConfigured(f"'{name}' is not a lookup.connectors.base.Connector class.")
    fields = getattr(cls, "fields", None)
    if not isinstance(fields, frozenset) or not fields or not fields <= set(FIELDS):
        raise ImproperlyConfigured(f"{name}.fields must be a frozenset of some of {', '.join(FIELDS)}.")
    if not isinstance(getattr(cls, "remote", None), bool):
        raise ImproperlyConfigured(f"{name}.remote must be True (it leaves the process) or False.")
    if not (isinstance(cls.concurrency, int) and cls.concurrency >= 1):
        raise ImproperlyConfigured(f"{name}.concurrency must be a whole number, at least 1.")
    try:
        connector = cls()
    except ImproperlyConfigured as error:
        raise ImproperlyConfigured(f"'{name}' cannot be created: {error}") from error
    except Exception as error:
        variable = error.args[0] if isinstance(error, KeyError) and error.args else None
        if isinstance(variable, str) and ENVIRONMENT_NAME.fullmatch(variable) and variable not in os.environ:
            message = f"'{name}' needs {variable}, which the environment does not set."
            raise preset.MissingEnvironment(message, f"Set {variable}.") from error
        raise ImproperlyConfigured(f"'{name}' cannot be created: {type(error).__name__}.") from error
    for limit in ("hit_ttl_s", "miss_ttl_s"):
        value = getattr(connector, limit)
        if not (isinstance(value, int | float) and value >= 0):
            raise ImproperlyConfigured(f"{name}.{limit} must be a number of seconds, at least 0.")
    wait_s = connector.max_wait_s
    if wait_s is not None and not (isinstance(wait_s, int | float) and wait_s > 0):
        raise ImproperlyConfigured(f"{name}.max_wait_s must be a number of seconds above 0, or None.")
    return connector


def _known() -> str:
    return (
        f"Built in: {', '.join(BUILT_IN)}. Presets: {', '.join(presets())}. "
        "Or the dotted path of your own class, or your own preset in PRESET_DIR."
    )
