"""Geography must say what phonenumbers' own geocoder says, without the memory that it takes."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phonenumbers
import pytest
from phonenumbers import PhoneNumber, PhoneNumberType, geocoder
from phonenumbers.geodata import GEOCODE_DATA

from core.text import clean_text
from lookup.answers import Found, NotFound
from lookup.connectors.geography import Geography
from tests import awaited, plugin

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("numbering_plan")]

NUMBERS = 100_000
NATIONAL_TYPES = {
    PhoneNumberType.FIXED_LINE,
    PhoneNumberType.MOBILE,
    PhoneNumberType.FIXED_LINE_OR_MOBILE,
    PhoneNumberType.VOIP,
    PhoneNumberType.PAGER,
}
#: Country codes of several countries with common toll-free, premium-rate or other numbers of no place.
SHARED_CODES = [1, 7, 39, 44, 47, 61, 212, 262, 358, 590]
UNNAMED_BY_THE_PACKAGE = {"AC": "Ascension Island", "TA": "Tristan da Cunha", "XK": "Kosovo"}


def lookup(number: str) -> Any:
    return awaited.answer_of(Geography(), number)


@pytest.mark.slow
@pytest.mark.once
def test_100_000_numbers_are_placed_as_the_geocoder_places_them() -> None:
    checked, wrong, regions, types, places = 0, [], set(), set(), set()
    without = set[tuple[str | None, int]]()
    geography = Geography()
    for digits, parsed in valid_numbers(NUMBERS):
        checked += 1
        region, kind = phonenumbers.region_code_for_number(parsed), phonenumbers.number_type(parsed)
        place = expected_place(parsed, region, kind)
        if awaited.answer_of(geography, digits) != (Found(location=place) if place else NotFound()):
            wrong.append((digits, place))
        if not place:
            without.add((region, kind))
        regions.add(region)
        types.add(kind)
        places.add(place)
    assert not wrong, wrong[:20]
    assert checked >= NUMBERS
    # Their numbers match a neighbour's plan first, so that the package itself hardly ever names them.
    assert phonenumbers.SUPPORTED_REGIONS - regions <= {"EH", "MF"}
    assert types == set(PhoneNumberType.values()) - {PhoneNumberType.UNKNOWN}
    assert len(places) > 10_000
    # README.md and docs/sources.md: which numbers have no place. "001": of no country, such as satellite telephones.
    assert {region for region, kind in without if kind in NATIONAL_TYPES} == {"001"}
    shared = {phonenumbers.country_code_for_region(str(region)) for region, _ in without} - {0}
    assert sorted(shared) == SHARED_CODES


def expected_place(parsed: PhoneNumber, region: str | None, kind: int) -> str:
    if place := geocoder.description_for_number(parsed, "en"):
        return clean_text(place)
    if region in UNNAMED_BY_THE_PACKAGE:
        return UNNAMED_BY_THE_PACKAGE[region]
    return str(geocoder._region_display_name(str(region), "en")) if kind in NATIONAL_TYPES else ""


def valid_numbers(count: int) -> Iterator[tuple[str, PhoneNumber]]:
    """At least `count` different valid numbers, the same ones in every run, from all regions, types and named blocks.

    In order, so that the patterns of one country, which the package compiles, serve for all its numbers.
    """
    rng = random.Random(20)
    examples = [phonenumbers.format_number(example, E164)[1:] for example in example_numbers()]
    lengths = {country_code(example): len(example) for example in reversed(examples)}
    stems = [(block, lengths[country_code(block)]) for block in rng.sample(sorted(GEOCODE_DATA), count)]
    for example in examples:
        stems += [(example[: max(4, len(example) - cut)], len(example)) for cut in range(1, 6) for _ in range(20)]
    found = {stem + "".join(rng.choices("0123456789", k=length - len(stem))) for stem, length in stems}
    for digits in sorted(rng.sample(sorted(found), count * 3 // 2)):
        parsed = phonenumbers.parse(f"+{digits}") if 7 <= len(digits) <= 15 else None
        if parsed and phonenumbers.is_valid_number(parsed):
            yield digits, parsed


E164 = phonenumbers.PhoneNumberFormat.E164


def example_numbers() -> list[PhoneNumber]:
    types = [kind for kind in PhoneNumberType.values() if kind != PhoneNumberType.UNKNOWN]
    regional = (
        phonenumbers.example_number_for_type(region, kind)
        for region in sorted(phonenumbers.SUPPORTED_REGIONS)
        for kind in types
    )
    worldwide = (
        phonenumbers.example_number_for_non_geo_entity(code)
        for code in sorted(phonenumbers.COUNTRY_CODES_FOR_NON_GEO_REGIONS)
    )
    return [example for example in (*regional, *worldwide) if example]


def country_code(digits: str) -> int:
    return next(code for n in (1, 2, 3) if (code := int(digits[:n])) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE)


@pytest.mark.parametrize(
    ("number", "place"),
    [
        ("493023125555", "Berlin"),
        ("16502530000", "Mountain View, CA"),
        ("919876543210", "India"),
        ("61491570156", "Australia"),
        ("5491123456789", "Buenos Aires"),
        ("38344123456", "Kosovo"),
        ("498001234567", "Germany"),
    ],
)
def test_places_that_people_would_check(number: str, place: str) -> None:
    assert lookup(number) == Found(location=place)


@pytest.mark.parametrize("number", ["18002345678", "80012345678", "8823421234"])
def test_a_number_without_a_country_gets_none(number: str) -> None:
    assert phonenumbers.is_valid_number(phonenumbers.parse(f"+{number}"))
    assert lookup(number) == NotFound()


@pytest.mark.parametrize("number", ["4900123456", "9991234567", "11111111111", "999999999999999", "2101234567"])
def test_a_number_in_no_plan_is_not_found_rather_than_failed(number: str) -> None:
    assert lookup(number) == NotFound()


def test_a_process_that_serves_never_imports_the_geocoder(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in plugin.our_settings()}
    environment |= {"DJANGO_SETTINGS_MODULE": "callerid_project.settings", "CALLERID_DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SERVING_PROCESS],
        check=False,
        cwd=plugin.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("Berlin []\n", 0), done.stderr


SERVING_PROCESS = """
import sys
import callerid_project.asgi
from django.core.management import call_command
from core import loop
from lookup.connectors.geography import Geography
from phonebook.models import NumberPrefix

call_command("migrate", "phonebook", verbosity=0)
NumberPrefix.objects.create(prefix=4930, place="Berlin")
answer = loop.run(Geography().lookup("493023125555", timeout_s=1))
print(answer.location, [name for name in sys.modules if name.startswith(("phonenumbers.geo", "phonenumbers.carrier"))])
"""
