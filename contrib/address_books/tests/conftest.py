"""Fixtures: address books on real servers, named in the settings."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import trustme

from contrib.address_books.sync import sync
from contrib.address_books.tests.servers import CardDAVBook, Radicale, Slapd
from phonebook.imports.pipeline import TransferResult
from phonebook.imports.readers.base import Rejected
from phonebook.models import Contact
from tests.adoption import installations
from tests.phonebook.conftest import _no_pause, file
from tests.servers import required
from tests.test_upgrades import postgresql, roles

__all__ = ["_no_pause", "file", "installations", "postgresql", "roles"]

Configure = Callable[[Mapping[str, str]], None]


def run(*names: str, rejects: list[tuple[str, Rejected]] | None = None, **options: Any) -> TransferResult:
    """The result of the last book."""
    listed: list[tuple[str, Rejected]] = [] if rejects is None else rejects
    results = list(sync(names or ["office"], on_reject=lambda *row: listed.append(row), **options))
    return results[-1][1]


def counts(result: TransferResult) -> tuple[int, int, int, int]:
    assert result.errors == []
    return result.transferred, result.added, result.changed, result.removed


def contacts() -> dict[int, tuple[str, str, str | None]]:
    return {row.number: (row.name, row.location, row.book) for row in Contact.objects.all()}


@pytest.fixture(scope="session")
def radicale() -> Iterator[Radicale]:
    with required():
        server = Radicale().start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def _slapd(authority: trustme.CA) -> Iterator[Slapd]:
    with required():
        server = Slapd(authority).start()
    yield server
    server.close()


@pytest.fixture
def slapd(_slapd: Slapd) -> Iterator[Slapd]:
    """Without people at the end."""
    yield _slapd
    _slapd.empty()


@pytest.fixture
def configure(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """`configure(environment)`: add its books to ADDRESS_BOOKS, after those that are there."""

    def add(environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
            if name.endswith("_URL"):
                book = name.removeprefix("ADDRESS_BOOK_").removesuffix("_URL").lower()
                settings.ADDRESS_BOOKS = [*settings.ADDRESS_BOOKS, book]

    settings.ADDRESS_BOOKS = []
    return add


@pytest.fixture
def books(radicale: Radicale, configure: Configure) -> Iterator[Callable[..., CardDAVBook]]:
    """`books("office")`: a configured CardDAV address book."""
    started: list[CardDAVBook] = []

    def start(name: str = "office") -> CardDAVBook:
        started.append(CardDAVBook(radicale).start())
        configure(started[-1].environment(name))
        return started[-1]

    yield start
    for book in started:
        book.proxy.stop()


@pytest.fixture
def book(books: Callable[..., CardDAVBook]) -> CardDAVBook:
    return books("office")
