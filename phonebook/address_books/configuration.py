"""Reads the settings of the address books: ADDRESS_BOOKS names them, and ADDRESS_BOOK_<NAME>_… describe each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import phonenumbers
from django.conf import settings

from core.addresses import LOOPBACK
from phonebook.address_books.changes import digest


class InvalidBook(Exception):
    """A setting of an address book is missing or invalid. The message says what to write, and quotes no value."""


@dataclass(frozen=True, slots=True)
class LDAPQuery:
    """The parts of an LDAP URL (RFC 4516). Without a scope it is `sub`, unlike there."""

    base: str
    attributes: tuple[str, ...]
    scope: str
    filter: str


@dataclass(frozen=True, slots=True)
class Book:
    """`url`: of a CardDAV collection, or scheme, host and port of an LDAP server, then with `query`. `region`: where
    numbers without a plus are dialed. `user`: empty for anonymous access."""

    name: str
    url: str
    region: str | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    query: LDAPQuery | None = None

    @property
    def is_loopback(self) -> bool:
        return LOOPBACK.fullmatch(urlsplit(self.url).hostname or "") is not None

    @property
    def credentials(self) -> tuple[bytes, bytes]:
        """User and password in UTF-8; bytes of the environment that are not UTF-8 stay as they are (PEP 383)."""
        return self.user.encode("utf-8", "surrogateescape"), self.password.encode("utf-8", "surrogateescape")

    @property
    def digest(self) -> str:
        """Of all that decides what is stored. When it changes, the whole book is transferred again."""
        return digest(repr((self.url, self.query, self.user, self.region)))


def read(name: str, environment: Mapping[str, str]) -> Book:
    """The settings of one book. Raises InvalidBook."""
    prefix = f"ADDRESS_BOOK_{name.upper()}"

    def value(key: str) -> str:
        return environment.get(f"{prefix}_{key}", "").strip()

    user, password, region = value("USER"), value("PASSWORD"), value("REGION").upper()
    if bool(user) != bool(password):
        raise InvalidBook(f"set both {prefix}_USER and {prefix}_PASSWORD, or neither")
    if region and region not in phonenumbers.SUPPORTED_REGIONS:
        raise InvalidBook(f"{prefix}_REGION must be an ISO 3166-1 code such as US")
    url, query = _url(f"{prefix}_URL", value("URL"))
    book = Book(name, url, region or None, user, password, query)
    if urlsplit(url).scheme == "http" and not book.is_loopback:
        raise InvalidBook(f"{prefix}_URL must begin with https://, except on loopback")
    return book


def problems(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each book whose settings are invalid."""
    found = []
    for name in settings.ADDRESS_BOOKS:
        try:
            read(name, environment)
        except InvalidBook as error:
            found.append(f"{name}: {error}.")
    return found


_SCOPES = ("base", "one", "sub")
_NUMBERS = ("telephoneNumber", "mobile", "homePhone")
_ATTRIBUTE = re.compile("[A-Za-z][A-Za-z0-9-]*")


def _url(setting: str, url: str) -> tuple[str, LDAPQuery | None]:
    if not url:
        raise InvalidBook(f"set {setting} to an address book's URL: https://… (CardDAV) or ldaps://… (LDAP)")
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https", "ldap", "ldaps") or parts.fragment:
        raise InvalidBook(f"{setting} must be a URL such as https://host/path/ or ldaps://host/base")
    if "@" in parts.netloc:
        raise InvalidBook(f"{setting} must not contain a user or password: set _USER and _PASSWORD")
    if parts.scheme in ("http", "https"):
        return url, None
    attributes, scope, filter_, more = ([*parts.query.split("?"), "", "", ""])[:4]
    names = tuple(filter(None, map(str.strip, unquote(attributes).split(",")))) or _NUMBERS
    base, scope, filter_ = unquote(parts.path.removeprefix("/")), scope.lower() or "sub", unquote(filter_)
    if not base or scope not in _SCOPES or more or not all(map(_ATTRIBUTE.fullmatch, names)):
        raise InvalidBook(f"{setting} must be an LDAP URL: ldaps://host/base?attributes?scope?filter")
    if filter_ and not (filter_.startswith("(") and filter_.endswith(")")):
        raise InvalidBook(f"the filter in {setting} must be in parentheses")
    has_number = "".join(f"({name}=*)" for name in names)
    return f"{parts.scheme}://{parts.netloc}", LDAPQuery(base, names, scope, filter_ or f"(|{has_number})")
