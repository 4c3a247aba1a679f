"""The installed numbering plan is complete and fits its tables."""

import phonenumbers
import pytest
from django.db import models

from phonebook.imports.numbering_plan import NumberingPlan, read_installed
from phonebook.models import Country, NumberPrefix


@pytest.fixture(scope="module")
def plan() -> NumberingPlan:
    return read_installed()


def test_the_whole_plan_is_read(plan: NumberingPlan) -> None:
    assert plan.version == phonenumbers.__version__
    assert len(plan.places) > 280_000
    assert plan.places[4930] == "Berlin"
    assert plan.countries["DE"] == "Germany"


def test_every_region_has_an_english_name(plan: NumberingPlan) -> None:
    assert set(plan.countries) >= phonenumbers.SUPPORTED_REGIONS
    assert not any(name.startswith("*") or not name for name in plan.countries.values())


def test_prefix_without_english_name_is_left_out(plan: NumberingPlan) -> None:
    from phonenumbers.geodata import GEOCODE_DATA

    nameless = {int(prefix) for prefix, names in GEOCODE_DATA.items() if "en" not in names}
    assert nameless
    assert not nameless & plan.places.keys()


def test_no_value_is_longer_than_its_column(plan: NumberingPlan) -> None:
    assert max(map(len, plan.places.values())) <= width(NumberPrefix, "place")
    assert {len(region) for region in plan.countries} == {width(Country, "code")}
    assert max(map(len, plan.countries.values())) <= width(Country, "name")


def width(model: type[models.Model], field: str) -> int:
    column = model._meta.get_field(field)
    assert isinstance(column, models.CharField)
    assert column.max_length is not None
    return column.max_length
