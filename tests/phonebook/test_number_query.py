"""The combined query returns what separate queries and the ORM return."""

import asyncio
from datetime import timedelta
from typing import Any
from unittest.mock import ANY

import pytest
from django.db import connection
from django.db.models import Q, Sum
from django.utils import timezone

from core import loop
from lookup.answers import Failed, Found
from lookup.connectors.tables import Complaints, Directory
from phonebook import number_query, rules
from phonebook.models import ComplaintDay, Contact, NumberRule
from tests import awaited

pytestmark = pytest.mark.django_db

NUMBERS = ("493023125042", "12125550142", "12125550143", "442079460987")
QUERIES = (rules.QUERY, Directory.query, Complaints.query)


@pytest.fixture(autouse=True)
def _rows(settings: Any) -> None:
    """Each number is in other tables than the rest; the last one in none."""
    settings.COMPLAINT_WINDOW_DAYS = 10
    today = timezone.now().date()
    contact, complained, ruled = map(int, NUMBERS[:3])
    Contact.objects.create(number=contact, name="Example Bakery", location="")
    Contact.objects.create(number=complained, name="", location="New York")
    for source, age_days, total in (("a", 0, 2), ("b", 9, 3), ("c", 10, 5), ("d", 0, 0)):
        ComplaintDay.objects.create(number=complained, source=source, day=today - timedelta(age_days), total=total)
    ComplaintDay.objects.create(number=contact, source="a", day=today - timedelta(400), total=1)
    ComplaintDay.objects.create(number=ruled, source="a", day=today, total=0)
    NumberRule.objects.create(number=ruled, spam=False, name="")


@pytest.mark.parametrize("number", NUMBERS)
def test_the_combined_query_equals_separate_queries_and_the_orm(number: str) -> None:
    of = {"number": int(number)}
    since = timezone.now().date() - timedelta(days=9)
    complaints = ComplaintDay.objects.filter(**of, total__gt=0)
    sums = complaints.aggregate(all=Sum("total"), recent=Sum("total", filter=Q(day__gte=since), default=0))
    expected = [
        NumberRule.objects.filter(**of).values_list("spam", "name", "number", "is_prefix").first(),
        Contact.objects.filter(**of).values_list("name", "location").first(),
        None if sums["all"] is None else (sums["recent"],),
    ]
    assert awaited.fetch_rows(QUERIES, number) == (expected, None)
    assert awaited.fetch_rows(QUERIES, number, "SELECT %s, 2", [1]) == (expected, (1, 2))
    assert [loop.run(query.row(number)) for query in QUERIES] == expected


@pytest.mark.django_db(transaction=True)
def test_a_missing_table_fails_only_its_own_slot(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory", "complaints"
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE phonebook_complaintday RENAME TO elsewhere")
        try:
            found = [awaited.search(NUMBERS[0]) for _ in range(2)]
        finally:
            cursor.execute("ALTER TABLE elsewhere RENAME TO phonebook_complaintday")
    for each in found:
        assert each.slots["source_a"].answer == Found(name="Example Bakery")
        assert each.slots["source_b"].answer == Failed("error", ANY)


def test_time_of_the_statement_counts_in_the_slots_that_use_it(monkeypatch: Any, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "geography", "complaints"
    read = number_query.fetch_rows

    async def slowly(*args: Any) -> Any:
        await asyncio.sleep(0.2)
        return await read(*args)

    monkeypatch.setattr(number_query, "fetch_rows", slowly)
    found = awaited.search(NUMBERS[1])
    assert found.slots["source_a"].elapsed_s < 0.2 <= found.slots["source_b"].elapsed_s
