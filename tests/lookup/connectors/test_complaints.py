"""Complaints as a source: counted over the window, and silent about what nobody reported."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lookup.answers import Answer, Found, NotFound
from lookup.connectors.complaints import Complaints
from phonebook.models import ComplaintDay
from tests import awaited

pytestmark = pytest.mark.django_db

NUMBER = "12125550199"


@pytest.fixture(autouse=True)
def two_in_ninety_days(settings: Any) -> None:
    settings.COMPLAINT_THRESHOLD, settings.COMPLAINT_WINDOW_DAYS = 2, 90


def complain(*, age_days: int, total: int, source: str = "test") -> None:
    day = datetime.now(UTC).date() - timedelta(days=age_days)
    ComplaintDay.objects.create(number=int(NUMBER), source=source, day=day, total=total)


def lookup(number: str = NUMBER) -> Any:
    return awaited.answer_of(Complaints(), number)


def test_a_number_that_nobody_reported_is_never_called_not_spam() -> None:
    complain(age_days=0, total=9)
    assert lookup("12125550198") == NotFound()


def test_a_withdrawn_complaint_does_not_count() -> None:
    complain(age_days=0, total=0)
    assert lookup() == NotFound()


@pytest.mark.parametrize(("total", "answer"), [(1, NotFound()), (2, Found(spam=True)), (2**31 - 1, Found(spam=True))])
def test_the_threshold_is_spam_and_one_less_is_unknown(total: int, answer: Answer) -> None:
    complain(age_days=0, total=total)
    assert lookup() == answer


def test_days_and_sources_add_up_beyond_32_bits() -> None:
    complain(age_days=0, total=2**31 - 1)
    complain(age_days=0, total=2**31 - 1, source="other")
    complain(age_days=3, total=2**31 - 1)
    assert lookup() == Found(spam=True)


def test_the_window_has_its_last_day_and_not_the_one_before() -> None:
    complain(age_days=90, total=5)
    assert lookup() == NotFound()
    complain(age_days=89, total=2)
    assert lookup() == Found(spam=True)


def test_complaints_dated_tomorrow_count() -> None:
    complain(age_days=-1, total=2)
    assert lookup() == Found(spam=True)


def test_a_window_of_one_day_is_today(settings: Any) -> None:
    settings.COMPLAINT_WINDOW_DAYS = 1
    complain(age_days=1, total=5)
    assert lookup() == NotFound()
    complain(age_days=0, total=2)
    assert lookup() == Found(spam=True)


def test_settings_are_read_at_each_lookup(settings: Any) -> None:
    complain(age_days=10, total=3)
    assert lookup() == Found(spam=True)
    settings.COMPLAINT_THRESHOLD = 4
    assert lookup() == NotFound()
