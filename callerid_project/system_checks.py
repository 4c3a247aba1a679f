"""Deployment checks (`manage.py check --deploy`): what works, but should not be so in production."""

import os
from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from callerid_project.environment import Environment
from core import addons, db, schema_state


@register
def check_addons_are_ready(**kwargs: Any) -> list[CheckMessage]:
    """One whose `ready` does not call Addon's adds nothing, in silence."""
    return [
        Error(
            f"The add-on {config.name} did not register anything: its ready() does not call Addon.ready().",
            hint="Call super().ready() there.",
            id="callerid.E001",
        )
        for config in apps.get_app_configs()
        if isinstance(config, addons.Addon) and not config.is_ready
    ]


@register
def check_variables_of_absent_addons(**kwargs: Any) -> list[CheckMessage]:
    """A variable that nothing reads, such as the DSN of error reports, must not be ignored in silence."""
    return [
        Warning(
            f"{', '.join(ignored)}: set, but ignored without the add-on {name}.",
            hint=f"Add {name} to ADDONS, or remove the variables.",
            id="callerid.W003",
        )
        for name in addons.in_package()
        if name not in settings.ADDONS and (ignored := sorted(_variables(name).intersection(_set())))
    ]


@register(Tags.database)
def check_numbers_of_absent_addons(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Run by `migrate` and by `check --database default`. The service does not start then either."""
    if not databases:
        return []
    try:
        found = schema_state.numbers_problem(schema_state.applied_migrations(), db.fetch(schema_state.SCHEMA))
    except DatabaseError:
        return []
    return [Error(f"{found}.", id="callerid.E002")] if found else []


def _set() -> list[str]:
    return [name for name, value in os.environ.items() if value.strip()]


def _variables(name: str) -> set[str]:
    """What the add-on reads if nothing is set."""
    env = Environment()
    env.ENVIRON = names = _Names()
    addons.settings_of(name, env)
    return names.asked


class _Names(dict[str, str]):
    """No variable, and the names of those that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def __missing__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return default


@register(Tags.security, deploy=True)
def check_trusted_proxies(**kwargs: Any) -> list[CheckMessage]:
    """The production profile serves plain HTTP with HTTPS-only cookies, so there is a proxy that terminates TLS."""
    if settings.EMBEDDED or settings.TRUSTED_PROXIES > 0:
        return []
    return [
        Warning(
            "TRUSTED_PROXIES is 0: behind a proxy all clients share the rate limits of its address, so ten login "
            "attempts per minute lock everybody out.",
            hint="Set TRUSTED_PROXIES to the number of proxies in front, for example TRUSTED_PROXIES=1.",
            id="callerid.W001",
        )
    ]


@register(Tags.security, deploy=True)
def check_two_factor_authentication(**kwargs: Any) -> list[CheckMessage]:
    if settings.EMBEDDED or settings.REQUIRE_2FA:
        return []
    return [
        Warning(
            "REQUIRE_2FA is off: staff without two-factor authentication open the console with only a password.",
            hint="Set REQUIRE_2FA=true, or leave it unset.",
            id="callerid.W002",
        )
    ]
