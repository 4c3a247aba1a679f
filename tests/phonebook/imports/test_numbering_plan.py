"""The installed numbering plan is complete and fits its tables."""

from typing import Any

import phonenumbers
import pytest
from django.db import models

from phonebook.imports.numbering_plan import NumberingPlan, UnknownLanguage, read_installed
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


@pytest.mark.parametrize(
    ("language", "number", "place", "country"),
    [
        ("de", 4989, "München", "Deutschland"),
        ("fr", 32_2, "Bruxelles", "Allemagne"),
        ("zh", 8610, "北京市", "德国"),
        ("it", 39_02, "Milano", "Germania"),
    ],
)
def test_places_are_named_in_the_language(settings: Any, language: str, number: int, place: str, country: str) -> None:
    settings.PLACE_LANGUAGE = language
    plan = read_installed()
    assert plan.places[number] == place
    assert plan.countries["DE"] == country
    assert plan.version == f"{phonenumbers.__version__} {language}"
    assert max(map(len, plan.places.values())) <= width(NumberPrefix, "place")
    assert max(map(len, plan.countries.values())) <= width(Country, "name")
    # What the package names in English, unless it is the country's name.
    assert plan.places.get(1_212) == (None if language == "zh" else "New York, NY")


@pytest.mark.parametrize("language", ["de", "zh", "ja", "es"])
def test_places_are_those_of_the_geocoder(settings: Any, language: str) -> None:
    from phonenumbers.geocoder import description_for_valid_number

    settings.PLACE_LANGUAGE = language
    plan, checked = read_installed(), 0
    for region in ("DE", "CN", "JP", "US", "ES", "FR", "BR", "CH", "IN"):
        parsed = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.FIXED_LINE)
        assert parsed
        digits = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)[1:]
        found = (plan.places.get(int(digits[:length])) for length in range(len(digits), 0, -1))
        place = next((place for place in found if place is not None), "") or plan.countries[region]
        assert place == description_for_valid_number(parsed, language), (region, place)
        checked += 1
    assert checked == 9


def test_unknown_language_is_refused(settings: Any) -> None:
    settings.PLACE_LANGUAGE = "xx"
    with pytest.raises(UnknownLanguage, match=r"no place has a name in xx, only in am, ar, .* zh, zh_Hant\.$"):
        read_installed()
