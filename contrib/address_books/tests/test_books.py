"""Settings of address books: what is refused, and that no value is quoted."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from contrib.address_books.books import Book, BookFailed, LDAPQuery, read
from tests.callerid_project.test_settings import load

pytestmark = pytest.mark.once

PHONES = ("telephoneNumber", "mobile", "homePhone")


def book(**settings: str) -> Book:
    return read("office", {f"ADDRESS_BOOK_OFFICE_{name}": value for name, value in settings.items()})


def test_carddav_book_is_read() -> None:
    read_book = book(URL=" https://dav.example.org/a/ ", USER="desk", PASSWORD="secret-7", REGION="us")
    assert read_book == Book("office", "https://dav.example.org/a/", "US", "desk", "secret-7")
    assert "secret-7" not in repr(read_book)


def test_names_are_read(tmp_path: Path) -> None:
    assert load(tmp_path, ADDRESS_BOOKS="office\nsales").ADDRESS_BOOKS == ["office", "sales"]


@pytest.mark.parametrize("names", ["Office", "1office", "office-1", "office,office", "o" * 33])
def test_invalid_names_are_refused(tmp_path: Path, names: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^ADDRESS_BOOKS must be different names"):
        load(tmp_path, ADDRESS_BOOKS=names)


def test_ldap_url_is_read() -> None:
    url = "ldaps://ldap.example.org:6360/ou=Our%20people,dc=example?mobile,ipPhone?one?(o=a%3Fb)"
    query = LDAPQuery("ou=Our people,dc=example", ("mobile", "ipPhone"), "one", "(o=a?b)")
    assert book(URL=url) == Book("office", "ldaps://ldap.example.org:6360", query=query)
    everybody = "(|(telephoneNumber=*)(mobile=*)(homePhone=*))"
    assert book(URL="ldap://ldap.example.org/dc=example").query == LDAPQuery("dc=example", PHONES, "sub", everybody)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "set ADDRESS_BOOK_OFFICE_URL to"),
        ({"URL": "ftp://secret-7.example.org/"}, "must be a URL such as"),
        ({"URL": "https:///secret-7"}, "must be a URL such as"),
        ({"URL": "https://host:x/secret-7"}, "must be a URL such as"),
        ({"URL": "https://desk:secret-7@dav.example.org/"}, "must not contain a user or password"),
        ({"URL": "http://dav.example.org/secret-7/"}, "must begin with https://"),
        ({"URL": "ldaps://ldap.example.org"}, "must be an LDAP URL"),
        ({"URL": "ldaps://ldap.example.org/dc=a?secret-7)"}, "must be an LDAP URL"),
        ({"URL": "ldaps://ldap.example.org/dc=a??all"}, "must be an LDAP URL"),
        ({"URL": "ldaps://ldap.example.org/dc=a????!x=secret-7"}, "must be an LDAP URL"),
        ({"URL": "ldaps://ldap.example.org/dc=a???-y secret-7"}, "must be in parentheses"),
        ({"URL": "https://dav.example.org/", "USER": "secret-7"}, "set both"),
        ({"URL": "https://dav.example.org/", "PASSWORD": "secret-7"}, "set both"),
        ({"URL": "https://dav.example.org/", "REGION": "secret-7"}, "ISO 3166-1"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(BookFailed, match=reason) as error:
        book(**given)
    assert "secret-7" not in str(error.value)


def test_digest_changes_with_what_is_stored_but_not_the_password() -> None:
    first = book(URL="https://dav.example.org/a/", USER="desk", PASSWORD="one")
    assert book(URL="https://dav.example.org/a/", USER="desk", PASSWORD="two").digest == first.digest
    for changed in (
        book(URL="https://dav.example.org/b/", USER="desk", PASSWORD="one"),
        book(URL="https://dav.example.org/a/", USER="other", PASSWORD="one"),
        book(URL="https://dav.example.org/a/", USER="desk", PASSWORD="one", REGION="US"),
    ):
        assert changed.digest != first.digest
