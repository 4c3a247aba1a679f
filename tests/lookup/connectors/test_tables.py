"""The built-in sources that read a table: complaints, counted over the window, and the operator's contacts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lookup.answers import Answer, Found, NotFound
from lookup.connectors.tables import Complaints, Directory
from phonebook.models import ComplaintDay, Contact
from tests import awaited

pytestmark = pytest.mark.django_db

NUMBER = "12125550199"


def complaints(number: str = NUMBER) -> Any:
    return awaited.answer_of(Complaints(), number)


def directory(number: str = NUMBER) -> Any:
    return awaited.answer_of(Directory(), number)


@pytest.fixture(autouse=True)
def two_in_ninety_days(settings: Any) -> None:
    settings.COMPLAINT_THRESHOLD, settings.COMPLAINT_WINDOW_DAYS = 2, 90


def complain(*, age_days: int, total: int, source: str = "test") -> None:
    day = datetime.now(UTC).date() - timedelta(days=age_days)
    ComplaintDay.objects.create(number=int(NUMBER), source=source, day=day, total=total)


def test_a_number_that_nobody_reported_is_never_called_not_spam() -> None:
    complain(age_days=0, total=9)
    assert complaints("12125550198") == NotFound()


def test_a_withdrawn_complaint_does_not_count() -> None:
    complain(age_days=0, total=0)
    assert complaints() == NotFound()


@pytest.mark.parametrize(("total", "answer"), [(1, NotFound()), (2, Found(spam=True)), (2**31 - 1, Found(spam=True))])
def test_the_threshold_is_spam_and_one_less_is_unknown(total: int, answer: Answer) -> None:
    complain(age_days=0, total=total)
    assert complaints() == answer


def test_days_and_sources_add_up_beyond_32_bits() -> None:
    complain(age_days=0, total=2**31 - 1)
    complain(age_days=0, total=2**31 - 1, source="other")
    complain(age_days=3, total=2**31 - 1)
    assert complaints() == Found(spam=True)


def test_the_window_has_its_last_day_and_not_the_one_before() -> None:
    complain(age_days=90, total=5)
    assert complaints() == NotFound()
    complain(age_days=89, total=2)
    assert complaints() == Found(spam=True)


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
    assert directory() == Found(**known)


def test_an_empty_contact_is_not_found_rather_than_a_failure() -> None:
    Contact.objects.create(number=int(NUMBER))
    assert directory() == NotFound()


def test_another_number_is_never_answered_by_a_neighbour() -> None:
    Contact.objects.create(number=int(NUMBER), name="Northwind")
    assert directory(NUMBER[:-1]) == directory(NUMBER + "0") == NotFound()


def test_the_longest_number_does_not_overflow() -> None:
    Contact.objects.create(number=999_999_999_999_999, name="Last")
    assert directory("9" * 15) == Found(name="Last")
