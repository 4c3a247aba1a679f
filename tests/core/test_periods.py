"""Months and quarters: their keys, their ends, and which are offered."""

from datetime import UTC, datetime, timedelta

import pytest

from core import periods
from core.periods import CalendarPeriod


@pytest.mark.parametrize(
    ("key", "title", "until"),
    [
        ("2026-01", "January 2026", "2026-02"),
        ("2025-12", "December 2025", "2026-01"),
        ("2026-Q1", "Q1 2026 (January to March)", "2026-04"),
        ("2026-Q2", "Q2 2026 (April to June)", "2026-07"),
        ("2026-Q3", "Q3 2026 (July to September)", "2026-10"),
        ("2026-Q4", "Q4 2026 (October to December)", "2027-01"),
    ],
)
def test_keys_name_months_and_quarters(key: str, title: str, until: str) -> None:
    found = CalendarPeriod.parse(key)
    assert found
    assert (found.key, str(found), f"{found.until:%Y-%m}") == (key, title, until)
    assert (found.next.since, found.next.previous) == (found.until, found)
    assert CalendarPeriod.of(found.until - timedelta(microseconds=1), found.length) == found
    assert found.months[0].since == found.since
    assert found.months[-1].until == found.until


@pytest.mark.parametrize(
    "key", ["", "2026", "2026-1", "2026-13", "2026-Q5", "2026-q1", "0000-01", "２０２６-01", "2026-01\n"]
)
def test_other_texts_name_no_period(key: str) -> None:
    assert CalendarPeriod.parse(key) is None


def test_first_row_decides_what_is_offered() -> None:
    now = datetime(2026, 4, 3, tzinfo=UTC)

    def keys(first: datetime) -> list[list[str]]:
        return [[each.key for each in group] for _, group in periods.calendars(first, now)]

    assert keys(now) == keys(now + timedelta(days=99)) == [["2026-04"], ["2026-Q2"]]
    assert keys(datetime(2026, 2, 28, tzinfo=UTC)) == [["2026-04", "2026-03", "2026-02"], ["2026-Q2", "2026-Q1"]]
    assert keys(datetime(1970, 1, 1, tzinfo=UTC))[1][-1] == "2000-Q1"
