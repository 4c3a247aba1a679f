"""The operator's contacts as a source."""

from typing import Any

import pytest

from lookup.answers import Found, NotFound
from lookup.connectors.directory import Directory
from phonebook.models import Contact
from tests import awaited

pytestmark = pytest.mark.django_db

NUMBER = "442079460123"


def lookup(number: str = NUMBER) -> Any:
    return awaited.answer_of(Directory(), number)


@pytest.mark.parametrize(
    ("name", "location", "known"),
    [
        ("Northwind", "London", {"name": "Northwind", "location": "London"}),
        ("Northwind", "", {"name": "Northwind"}),
        ("", "London", {"location": "London"}),
    ],
)
def test_a_contact_says_what_it_has_and_nothing_empty(name: str, location: str, known: dict[str, Any]) -> None:
    Contact.objects.create(number=int(NUMBER), name=name, location=location)
    assert lookup() == Found(**known)


def test_an_empty_contact_is_not_found_rather_than_a_failure() -> None:
    Contact.objects.create(number=int(NUMBER))
    assert lookup() == NotFound()


def test_another_number_is_never_answered_by_a_neighbour() -> None:
    Contact.objects.create(number=int(NUMBER), name="Northwind")
    assert lookup(NUMBER[:-1]) == lookup(NUMBER + "0") == NotFound()


def test_the_longest_number_does_not_overflow() -> None:
    Contact.objects.create(number=999_999_999_999_999, name="Last")
    assert lookup("9" * 15) == Found(name="Last")
