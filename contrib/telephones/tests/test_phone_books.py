"""`export_phone_book` and `serve_directory --check`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.db import OperationalError

from contrib.telephones import directory, phone_books
from core.text import storable
from phonebook import rules
from phonebook.models import Contact
from tests.integrations.vectors import GERMANY, NAMES, NORTH_AMERICA
from tests.phonebook.commands.imports import Ran
from tests.upstream import Upstream, says

pytestmark = pytest.mark.django_db

NUMBER = 493023125555
#: Paths of entries, names and numbers in each format.
PATHS = {
    "yealink": ("YealinkIPPhoneDirectory", "DirectoryEntry", "Name", "Telephone"),
    "snom": ("tbook", "contact", "last_name", "numbers/number"),
    "grandstream": ("AddressBook", "Contact", "LastName", "Phone/phonenumber"),
}
HOSTILE = [name for name, shown in NAMES if shown and storable(name) == name and len(name) <= 200] + [
    "</Name><Telephone>1</Telephone>",
    "]]>&amp;&#0;<!-- <![CDATA[",
    "{number}{0}%s",
    "\u05d3\u05d5\u05d3 \u202e\u2066abc",
    "\ufffe\uffff\x0b\x00x".replace("\x00", ""),
]


def entries(file: Path, format_: str) -> list[tuple[str | None, str | None]]:
    root_tag, entry, name, number = PATHS[format_]
    root = ET.parse(file).getroot()
    assert root.tag == root_tag
    numbers = [found.find(number) for found in root.findall(entry)]
    texts = [found.get("no", found.text) for found in numbers if found is not None]
    return list(zip([found.findtext(name) for found in root.findall(entry)], texts, strict=True))


@pytest.mark.parametrize("format_", PATHS)
def test_phone_book_has_all_names_in_order(format_: str, tmp_path: Path) -> None:
    Contact.objects.create(number=NUMBER, name="Zoo & S\u00f6hne")
    Contact.objects.create(number=NUMBER + 1, name="alpha")
    Contact.objects.create(number=NUMBER + 2, location="Berlin")
    file = tmp_path / "phonebook.xml"
    ran = Ran("export_phone_book", "--format", format_, str(file))
    assert (ran.error, ran.out, ran.err) == (None, "Wrote 2 entries.\n", "")
    assert entries(file, format_) == [("alpha", "+493023125556"), ("Zoo & S\u00f6hne", "+493023125555")]
    assert file.stat().st_mode & 0o777 == 0o644
    assert json.loads(Ran("export_phone_book", "--json", "--format", format_, str(file)).out) == {"entries": 2}


@pytest.mark.parametrize("format_", PATHS)
@pytest.mark.parametrize(
    ("given", "number", "numbers"),
    [
        (GERMANY, NUMBER, ["03023125555", "+493023125555"]),
        (GERMANY, 442079460121, ["00442079460121", "+442079460121"]),
        (NORTH_AMERICA, 12125550123, ["2125550123", "+12125550123"]),
        (NORTH_AMERICA, NUMBER, ["011493023125555", "+493023125555"]),
        ({}, NUMBER, ["+493023125555"]),
    ],
)
def test_phone_book_has_both_forms_of_a_number(
    given: dict[str, str], number: int, numbers: list[str], format_: str, tmp_path: Path, settings: Any
) -> None:
    for name, value in given.items():
        setattr(settings, name, [int(value)] if name == "NATIONAL_DIGITS" else value)
    Contact.objects.create(number=number, name="Musterhaus")
    Ran("export_phone_book", "--format", format_, str(tmp_path / "book"))
    root = ET.parse(tmp_path / "book").getroot()
    found = root.findall(f"{PATHS[format_][1]}/{PATHS[format_][3]}")
    assert [each.get("no", each.text) for each in found] == numbers


@pytest.mark.parametrize("format_", PATHS)
def test_hostile_names_stay_names(format_: str, tmp_path: Path) -> None:
    Contact.objects.bulk_create(Contact(number=number, name=name) for number, name in enumerate(HOSTILE, NUMBER))
    file = tmp_path / "phonebook.xml"
    assert Ran("export_phone_book", "--format", format_, str(file)).error is None
    found = {number: name for name, number in entries(file, format_)}
    assert found.keys() == {f"+{number}" for number in range(NUMBER, NUMBER + len(HOSTILE))}
    for number, name in enumerate(HOSTILE, NUMBER):
        shown = found[f"+{number}"]
        assert shown == directory.displayed(name)
        assert shown.isprintable()


def test_more_entries_than_documented_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Contact.objects.bulk_create(Contact(number=NUMBER + n, name=f"Name {n}") for n in range(251))
    ran = Ran("export_phone_book", "--format", "snom", str(tmp_path / "book"))
    assert (ran.error, ran.out) == (None, "Wrote 251 entries.\n")
    assert ran.err.startswith("Snom documents a limit of 250 entries for the telephone's own directory")
    assert Ran("export_phone_book", "--format", "grandstream", str(tmp_path / "book")).err == ""


def test_failed_export_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "phonebook.xml"
    file.write_text("before")

    def fails() -> None:
        raise OperationalError

    monkeypatch.setattr(directory, "everyone", fails)
    with pytest.raises(OperationalError):
        phone_books.write(file, phone_books.FORMATS["snom"])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
    missing = tmp_path / "missing" / "book"
    ran = Ran("export_phone_book", "--format", "snom", str(missing))
    assert str(ran.error) == f"{missing}: No such file or directory. Nothing was changed."


def test_check_shows_what_a_telephone_finds(settings: Any, vendor: Callable[..., Upstream]) -> None:
    settings.COUNTRY_CODE, settings.TRUNK_PREFIX = "49", "0"
    settings.LDAP_PASSWORD, settings.SPAM_MARK = "x", "! "
    Contact.objects.create(number=NUMBER, name="Musterhaus")
    ran = Ran("serve_directory", "--check", "03023125555")
    assert (ran.error, ran.out, ran.err) == (None, "+493023125555: Musterhaus\n", "")
    assert Ran("serve_directory", "--check", "+12125550123").out == "+12125550123: no entry\n"
    assert str(Ran("serve_directory", "--check", "101").error) == "not a number with a country code"
    settings.LDAP_TOKEN, settings.LDAP_URL = "a.b.c", vendor(says({"success": True})).url
    refused = Ran("serve_directory", "--check", "+12125550123").error
    assert str(refused) == "The answer is not one of this API: check the URL."
    settings.LDAP_TOKEN = ""
    rules.set_rule("1212", is_prefix=True, spam=True)
    assert Ran("serve_directory", "--check", "+12125550123").out == "+12125550123: ! +12125550123\n"
    settings.LDAP_PASSWORD = ""
    assert "CALLERID_LDAP_PASSWORD is not set" in Ran("serve_directory", "--check", "03023125555").err


def test_socket_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "socket"
    assert str(Ran("serve_directory", "--socket", str(path)).error) == f"{path}: No such file or directory."
