"""Add-ons: Django apps that nothing in the kernel imports.

An add-on is a package with `apps.py`, which has one subclass of Addon; it may have

    hooks.py    registers what the add-on adds to the kernel; imported by every command, so it imports nothing heavy
    conf.py     `read(env) -> dict`: its settings, by name

and whatever a Django app has. Those in `contrib` are named without the package, others by their dotted path.
"""

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

from django.apps import AppConfig
from django.apps import apps as registry
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.models.signals import post_migrate

PACKAGE = "contrib"


class Addon(AppConfig):
    #: The add-ons that this one imports.
    requires: tuple[str, ...] = ()
    #: Its models (lower-case names) that were another app's, by that app's label: (("lookup", ("filelookup",)),). Its
    #: migration has `core.migration_operations.AdoptModel` and `MoveContentTypes` for them.
    adopts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    is_ready = False

    def ready(self) -> None:
        if find_spec(f"{self.name}.hooks"):
            import_module(f"{self.name}.hooks")
        if self.adopts:
            post_migrate.connect(self._adopt, sender=self)
        self.is_ready = True

    def _adopt(self, using: str, **kwargs: Any) -> None:
        """Again after each `migrate`: processes of the version before may have created the old content types anew."""
        from core.migration_operations import move_content_types  # what it imports needs the settings

        if "django_content_type" in connections[using].introspection.table_names():  # else only some app was migrated
            for from_app, models in self.adopts:
                move_content_types(registry, from_app, self.label, models, using=using)


def in_package() -> list[str]:
    """The names of those in `contrib`; none if the folder was deleted."""
    spec = find_spec(PACKAGE)
    return sorted(found.name for found in iter_modules(spec.submodule_search_locations or ())) if spec else []


def chosen(value: str) -> list[str]:
    """The names that ADDONS has: all in `contrib` if it is empty, and none if it is `none`. Raises ImproperlyConfigured
    for an unknown name, or one whose requirement is missing."""
    names = list(dict.fromkeys(value.replace(",", " ").split()))
    if not names:
        return in_package()
    if names == ["none"]:
        return []
    for name in names:
        if missing := set(load(name).requires).difference(names):
            raise ImproperlyConfigured(f"ADDONS has {name}, which requires {', '.join(sorted(missing))}: add it.")
    return names


def load(name: str) -> type[Addon]:
    """Raises ImproperlyConfigured if there is no such add-on."""
    path = f"{_package(name)}.apps"
    try:
        found = find_spec(path)
    except ValueError:
        found = None
    except ImportError as error:
        if error.name and not path.startswith(f"{error.name}."):
            raise  # the package is there, and what it imports is not
        found = None
    if found:
        members = vars(import_module(path)).values()
        classes = [each for each in members if isinstance(each, type) and each.__module__ == path]
        addons = [each for each in classes if issubclass(each, Addon)]
        if len(addons) == 1:
            return addons[0]
    raise ImproperlyConfigured(f"ADDONS has {name}, but there is no such add-on. {_known()}")


def apps(names: Iterable[str]) -> list[str]:
    """For INSTALLED_APPS."""
    return [f"{addon.__module__}.{addon.__qualname__}" for addon in map(load, names)]


def settings_of(name: str, env: Any) -> dict[str, Any]:
    """The settings of one. Raises ImproperlyConfigured for an invalid value."""
    path = f"{_package(name)}.conf"
    settings: dict[str, Any] = import_module(path).read(env) if find_spec(path) else {}
    return settings


def _package(name: str) -> str:
    return name if "." in name else f"{PACKAGE}.{name}"


def _known() -> str:
    names: Sequence[str] = in_package()
    return f"ADDONS must be none, or some of {','.join(names)}." if names else "There are none: set ADDONS=none."
