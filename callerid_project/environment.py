"""Reads settings from environment variables. Raises ImproperlyConfigured, which says what to write instead."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from callerid_project import hosts
from core import redis_sentinel
from core.amounts import decimal_number, whole_number


class Environment(environ.Env):
    def __init__(self) -> None:
        super().__init__()
        # A variable with an empty value counts as unset.
        self.ENVIRON = {name: value for name, value in os.environ.items() if value.strip()}

    def number(self, name: str, default: float, *, least: float = 1, most: float = 10**9) -> Any:
        """A number from `least` to `most`: a whole number unless `default` is a float."""
        kind = "a number" if isinstance(default, float) else "a whole number"
        with must_be(name, f"{kind} from {least} to {most}, for example {name}={default}."):
            parse = decimal_number if isinstance(default, float) else whole_number
            value = type(default)(parse(self.text(name, str(default))))
            if not least <= value <= most:
                raise ValueError
            return value

    def items(self, name: str) -> list[str]:
        """What is between commas, where an item may contain spaces."""
        # django-environ's list would take a leading `$` of a key for a reference to another variable.
        return [item.strip() for item in self.text(name).split(",") if item.strip()]

    def words(self, name: str, default: list[str]) -> list[str]:
        """What is between commas or spaces, which programs such as `hostname -i` write."""
        given = self.ENVIRON.get(name)
        return default if given is None else given.replace(",", " ").split()

    def hosts(self, name: str, default: list[str]) -> list[str]:
        try:
            return hosts.read(self.text(name)) or default
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name} must be names and addresses, separated by commas: {name}=callerid.example.com,[2001:db8::7]. "
                f"No Host header can match {error}."
            ) from None

    def networks(self, name: str, default: list[str]) -> list[IPv4Network | IPv6Network]:
        with must_be(name, f"networks, separated by commas: {name}=10.0.0.0/8,2001:db8::/32."):
            return [ip_network(word) for word in self.words(name, default)]

    def choice(self, name: str, *choices: str) -> str:
        """One of these words; the first is the default."""
        value = str(self.str(name, choices[0])).strip().lower()
        if value not in choices:
            raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}.")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self.str(name, "true" if default else "false").strip().lower()
        if value not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
            raise ImproperlyConfigured(f"{name} must be true or false.")
        return value in ("true", "1", "yes", "on")

    def text(self, name: str, default: str = "") -> str:
        """As it is: django-environ's `str` takes a leading `$` for a reference to another variable."""
        return str(self.ENVIRON.get(name, default))

    def digits(self, name: str, default: str = "", *, most: int) -> str:
        """At most so many digits; the default if it is unset."""
        value = self.text(name, default).strip()
        if value and not (value.isascii() and value.isdigit() and len(value) <= most):
            raise ImproperlyConfigured(f"{name} must be at most {most} digits, without a plus.")
        return value

    def rate(self, name: str, default: str) -> tuple[int, int]:
        """'30/m' → (30, 60): how many within how many seconds."""
        count, _, period = self.str(name, default).strip().partition("/")
        seconds = {"s": 1, "m": 60, "h": 3600}.get(period)
        with must_be(name, f"N/s, N/m or N/h with N at least 1, for example {name}={default}."):
            if seconds is None or not 1 <= whole_number(count) < 10**9:
                raise ValueError
            return whole_number(count), seconds

    def prices(self, name: str) -> dict[str, Decimal]:
        """'0.008' → {'*': 0.008}; 'twilio=0.008, trestle=0.07' → a price for each of these sources."""
        found = {}
        for item in self.items(name):
            source, _, amount = item.rpartition("=")
            with must_be(name, f"a price, or prices by source: {name}=twilio=0.008,trestle=0.07"):
                found[source.strip() or "*"] = _price(amount)
        return found

    def price(self, name: str) -> Decimal | None:
        """A price; None if the variable is unset."""
        given = self.ENVIRON.get(name)
        with must_be(name, f"a price from 0 to below 1,000,000, such as {name}=0.02."):
            return None if given is None else _price(given)

    def redis(self, name: str) -> str:
        url = str(self.str(name, "")).strip()
        if url and not (_valid_url(url, "redis", "rediss", "unix") or redis_sentinel.parse(url)):
            raise ImproperlyConfigured(
                f"{name} must be redis://host:6379/0, or start with rediss:// or unix://, or, for Redis Sentinel, be "
                "sentinel://:password@host1:26379,host2:26379/name-of-the-master/0."
            )
        return url

    def file_url(self, name: str, *, containing: str = "") -> str:
        """The URL of a file to download; empty if it is unset."""
        url = self.ENVIRON.get(name, "").strip()
        valid = _valid_url(url, "http", "https") and urlsplit(url).hostname and containing in url
        if url and not valid:
            raise ImproperlyConfigured(f"{name} must be a URL such as https://mirror.example.org/file{containing}.")
        return url

    def origin(self, name: str) -> str:
        """Scheme, host and port of a URL, without a slash at the end; empty if it is unset."""
        url = self.ENVIRON.get(name, "").strip().removesuffix("/")
        parts = urlsplit(url) if _valid_url(url, "http", "https") else None
        if url and not (parts and parts.hostname and url == f"{parts.scheme}://{parts.netloc}" and "@" not in url):
            raise ImproperlyConfigured(
                f"{name} must be scheme and host, for example {name}=https://callerid.example.org."
            )
        return url

    def database(self, name: str) -> dict[str, Any]:
        """Django's database settings of a PostgreSQL URL, read by libpq, which also connects: with several hosts
        (host1:5432,host2:5432) it tries them in turn. Empty if libpq refuses the URL or it names no database."""
        from psycopg import ProgrammingError  # the embedded profile never loads it
        from psycopg.conninfo import conninfo_to_dict

        url = self.ENVIRON.get(name, "").strip()
        if not url.startswith(("postgres://", "postgresql://")):  # libpq also accepts words such as host=db
            return {}
        try:
            options = conninfo_to_dict(url)
        except (ProgrammingError, UnicodeError):
            return {}
        # An IPv6 address without brackets: libpq takes it for a host with a port, and refuses that when it connects.
        bare_ipv6 = not re.fullmatch("[0-9,]*", str(options.get("port", "")))
        if bare_ipv6 or not options.keys() & {"dbname", "service"}:
            return {}
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        return {django: options.pop(libpq, "") for django, libpq in names.items()} | {"OPTIONS": options}

    def mail_server(self, name: str) -> dict[str, Any]:
        """Django's EMAIL_… settings of a URL; empty if it is unset."""
        with must_be(name, "smtp+tls://user:password@host:587, or smtp:// or smtp+ssl://."):
            return dict(self.email_url(name)) if self.str(name, "") else {}


@contextmanager
def must_be(name: str, what: str) -> Iterator[None]:
    """Whatever the block raises about the value of `name` becomes a sentence, without that value: it may be secret."""
    try:
        yield
    except Exception:
        raise ImproperlyConfigured(f"{name} must be {what}") from None


def _price(text: str) -> Decimal:
    """Raises ValueError if it is not a price."""
    price = decimal_number(text)
    if not 0 <= price < 1_000_000:
        raise ValueError
    return price


def _valid_url(url: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and parts.port != 0
    except ValueError:  # the port
        return False
