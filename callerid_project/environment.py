"""Reads what settings are made of. A value that cannot work raises ImproperlyConfigured, with what to write instead."""

import os
from decimal import Decimal, InvalidOperation
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured


class Environment(environ.Env):
    def __init__(self) -> None:
        super().__init__()
        # A name that is set to nothing is not set.
        self.ENVIRON = {name: value for name, value in os.environ.items() if value.strip()}

    def number(self, name: str, default: float, *, least: float = 1, most: float = 10**9) -> Any:
        """A whole number, or any number where `default` is a float, within the bounds."""
        kind = "a number" if isinstance(default, float) else "a whole number"
        try:
            value = self.get_value(name, cast=type(default), default=default)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise ImproperlyConfigured(f"{name} must be {kind} from {least} to {most}, for example {name}={default}.")
        return value

    def words(self, name: str, default: list[str]) -> list[str]:
        # Split here: django-environ would take a key's leading `$` for another variable's name.
        given = self.ENVIRON.get(name)
        return default if given is None else [item.strip() for item in given.split(",") if item.strip()]

    def flag(self, name: str, default: bool) -> bool:
        value = self.str(name, "true" if default else "false").strip().lower()
        if value not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
            raise ImproperlyConfigured(f"{name} must be true or false.")
        return value in ("true", "1", "yes", "on")

    def rate(self, name: str, default: str) -> tuple[int, int]:
        """'30/m' → (30, 60): how many in how many seconds."""
        count, _, period = self.str(name, default).strip().partition("/")
        seconds = {"s": 1, "m": 60, "h": 3600}.get(period)
        if seconds is None or not (count.isascii() and count.isdigit() and len(count) <= 9 and int(count) > 0):
            raise ImproperlyConfigured(
                f"{name} must be N/s, N/m or N/h with N at least 1, for example {name}={default}."
            )
        return int(count), seconds

    def prices(self, name: str) -> dict[str, Decimal]:
        """'0.008' → {'*': 0.008}; 'twilio=0.008, trestle=0.07' → a price for each of these."""
        found = {}
        for item in self.words(name, []):
            member, _, amount = item.rpartition("=")
            try:
                found[member.strip() or "*"] = price = Decimal(amount.strip())
            except InvalidOperation:
                price = Decimal(-1)
            if not (price.is_finite() and 0 <= price < 1_000_000):
                raise ImproperlyConfigured(
                    f"{name} must be a price, or prices by source: {name}=twilio=0.008,trestle=0.07"
                )
        return found
