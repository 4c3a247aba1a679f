"""The sample data: loaded once, never overwriting rows, and without real people's numbers."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import models

from core import numbers
from lookup.answers import Found, NotFound
from lookup.connectors.tables import Complaints
from phonebook.imports import sample_data
from phonebook.imports.sample_data import DEMO_NUMBER, load_sample_data
from phonebook.models import ComplaintDay, Contact, Dataset, NumberPrefix, NumberRule
from tests import awaited
from tests.awaited import search

pytestmark = pytest.mark.django_db

TODAY = date(2026, 3, 1)
RESERVED = re.compile(
    r"1[2-9]\d{2}55501\d\d"  # North America: 555-0100 to 555-0199
    r"|16502530000"  # Google's own, as it publishes it
    r"|442079460\d{3}|441614960\d{3}|447700900\d{3}"  # Ofcom: London, Manchester, mobile
    r"|493023125\d{3}|494066969\d{3}|498999998\d{3}"  # Bundesnetzagentur: Berlin, Hamburg, Munich
    r"|331990\d{5}|3363998\d{4}"  # ARCEP: 01 99 00, 06 39 98
    r"|467017406\d\d"  # PTS: 070-174 06
    r"|612(?:5550|7010)\d{4}|61491570(?:006|110|156|157|158|159)|611800160401"  # ACMA
)


MODELS: list[type[models.Model]] = [Contact, ComplaintDay, NumberRule, Dataset]


def everything() -> list[list[dict[str, Any]]]:
    return [list(model._default_manager.order_by("pk").values()) for model in MODELS]


def test_second_call_changes_nothing_even_on_another_day() -> None:
    assert load_sample_data(today=TODAY) is True
    before = everything()
    assert all(before)
    assert load_sample_data(today=TODAY + timedelta(days=30)) is False
    assert everything() == before


def test_existing_rows_are_not_overwritten() -> None:
    NumberRule.objects.create(number=int(DEMO_NUMBER), spam=False, name="Ours", note="kept")
    Contact.objects.create(number=int(DEMO_NUMBER), name="Ours")
    load_sample_data(today=TODAY)
    rule = NumberRule.objects.get(number=int(DEMO_NUMBER))
    assert (rule.spam, rule.name, rule.note) == (False, "Ours", "kept")
    assert Contact.objects.get(number=int(DEMO_NUMBER)).name == "Ours"


def test_search_for_the_demo_number_has_all_four_fields(settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory,geography", "complaints"
    load_sample_data(today=datetime.now(UTC).date())
    NumberPrefix.objects.create(prefix=4930, place="Berlin")
    slots = search(DEMO_NUMBER).slots
    assert slots["source_a"].answer == Found(name="Musterhaus Advisors", location="Berlin")
    assert slots["source_b"].answer == Found(name="Musterhaus Advisors", spam=True)


def test_complaints_are_dated_back_from_the_loading() -> None:
    load_sample_data()
    assert awaited.answer_of(Complaints(), "442079460987") == Found(spam=True)
    assert awaited.answer_of(Complaints(), "447700900900") == NotFound()
    assert awaited.answer_of(Complaints(), "14155550101") == NotFound()


@pytest.mark.parametrize("name", ["contacts", "complaints", "rules"])
def test_every_number_is_reserved_for_fiction(name: str) -> None:
    rows = list(sample_data._rows(name))
    assert len(rows) >= 8
    for row in rows:
        assert RESERVED.fullmatch(numbers.parse(row["number"])), row
