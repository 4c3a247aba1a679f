"""Address books: the settings of each (ADDRESS_BOOKS names them, and ADDRESS_BOOK_<NAME>_… describe each), how old its
last synchronization is, and what carddav.py and ldapsearch.py return about it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import unquote, urlsplit

from django.conf import settings

from contrib.address_books.models import AddressBook
from core import numbers
from core.addresses import LOOPBACK
from core.hashing import keyed_hash
from phonebook.imports.readers.base import REPEATED_IN_CONTACT, ContactRow, Rejected


class BookFailed(Exception):
    """A book's settings are invalid, it could not be read, or its changes were refused; it stays as it is. The message
    is for operators: no URL, credentials or contact."""


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
    """The settings of one book. Raises BookFailed."""
    prefix = f"ADDRESS_BOOK_{name.upper()}"

    def value(key: str) -> str:
        return environment.get(f"{prefix}_{key}", "").strip()

    user, password, region = value("USER"), value("PASSWORD"), value("REGION").upper()
    if bool(user) != bool(password):
        raise BookFailed(f"set both {prefix}_USER and {prefix}_PASSWORD, or neither")
    if region and region not in numbers.REGIONS:
        raise BookFailed(f"{prefix}_REGION must be an ISO 3166-1 code such as US")
    url, query = _url(f"{prefix}_URL", value("URL"))
    book = Book(name, url, region or None, user, password, query)
    if urlsplit(url).scheme == "http" and not book.is_loopback:
        raise BookFailed(f"{prefix}_URL must begin with https://, except on loopback")
    return book


def problems(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each book whose settings are invalid."""
    found = []
    for name in settings.ADDRESS_BOOKS:
        try:
            read(name, environment)
        except BookFailed as error:
            found.append(f"{name}: {error}.")
    return found


_SCOPES = ("base", "one", "sub")
_NUMBERS = ("telephoneNumber", "mobile", "homePhone")
_ATTRIBUTE = re.compile("[A-Za-z][A-Za-z0-9-]*")


def _url(setting: str, url: str) -> tuple[str, LDAPQuery | None]:
    if not url:
        raise BookFailed(f"set {setting} to an address book's URL: https://… (CardDAV) or ldaps://… (LDAP)")
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https", "ldap", "ldaps") or parts.fragment:
        raise BookFailed(f"{setting} must be a URL such as https://host/path/ or ldaps://host/base")
    if "@" in parts.netloc:
        raise BookFailed(f"{setting} must not contain a user or password: set _USER and _PASSWORD")
    if parts.scheme in ("http", "https"):
        return url, None
    attributes, scope, filter_, more = ([*parts.query.split("?"), "", "", ""])[:4]
    names = tuple(filter(None, map(str.strip, unquote(attributes).split(",")))) or _NUMBERS
    base, scope, filter_ = unquote(parts.path.removeprefix("/")), scope.lower() or "sub", unquote(filter_)
    if not base or scope not in _SCOPES or more or not all(map(_ATTRIBUTE.fullmatch, names)):
        raise BookFailed(f"{setting} must be an LDAP URL: ldaps://host/base?attributes?scope?filter")
    if filter_ and not (filter_.startswith("(") and filter_.endswith(")")):
        raise BookFailed(f"the filter in {setting} must be in parentheses")
    has_number = "".join(f"({name}=*)" for name in names)
    return f"{parts.scheme}://{parts.netloc}", LDAPQuery(base, names, scope, filter_ or f"(|{has_number})")


# --- For the console and health checks -----------------------------------------------------------------------------

#: `sync_contacts` runs every hour.
STALE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BookStatus:
    row: AddressBook
    now: datetime

    @property
    def is_configured(self) -> bool:
        return self.row.name in settings.ADDRESS_BOOKS

    @property
    def age(self) -> timedelta | None:
        """Of the last synchronization that succeeded; None: never."""
        return max(timedelta(), self.now - self.row.synced_at) if self.row.synced_at else None

    @property
    def is_stale(self) -> bool:
        return self.age is None or self.age > STALE


def statuses(now: datetime) -> list[BookStatus]:
    """Of the books in ADDRESS_BOOKS, in their order, and of others that were synchronized before. One statement."""
    rows = AddressBook.objects.in_bulk()
    names = [*settings.ADDRESS_BOOKS, *sorted(set(rows) - set(settings.ADDRESS_BOOKS))]
    return [BookStatus(rows.get(name) or AddressBook(name=name), now) for name in names]


# --- What has changed in a book ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Card:
    """A card that is new or may have changed. `label`: its path or id on the server, for the list of rejected rows."""

    label: str
    version: str = ""
    contacts: dict[int, tuple[str, str]] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)
    repeated: int = 0

    def add(self, rows: Iterator[ContactRow | Rejected]) -> None:
        """Add the rows of a reader; of a number's rows the first counts."""
        for row in rows:
            if not isinstance(row, Rejected):
                _line, number, name, location = row
                self.repeated += number in self.contacts
                self.contacts.setdefault(number, (name, location))
            elif row.reason == REPEATED_IN_CONTACT:
                self.repeated += 1
            else:
                self.rejected.append(row)


@dataclass(slots=True)
class Changes:
    """`cards`: by key. `removed`: keys of cards that are gone. `not_returned`: cards that the server listed but did not
    return; they stay as they are, and the next run asks for them again. `unreadable`: how many of these it returned in
    a response that cannot be read."""

    cards: dict[str, Card] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    not_returned: list[Card] = field(default_factory=list)
    unreadable: int = 0


def digest(text: str) -> str:
    """A key or version as it is stored: it may be long, and contain names and numbers."""
    return keyed_hash("address book", text).hex()[:32]
