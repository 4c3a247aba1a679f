"""What chosen add-ons add to tables of the kernel's tests."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.apps import apps

from core.addons import Addon


def of_addons(name: str) -> dict[str, Any]:
    """The entries of the dictionaries with this name in the `tests` packages of add-ons."""
    packages = [f"{config.name}.tests" for config in apps.get_app_configs() if isinstance(config, Addon)]
    merged: dict[str, Any] = {}
    for package in filter(find_spec, packages):
        merged |= getattr(import_module(package), name, {})
    return merged
