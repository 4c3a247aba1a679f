"""The settings of each country that docs/telephone-systems.md has, by libphonenumber's metadata."""

import re
import runpy
from typing import Any, cast

import pytest
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneMetadata

from tests import plugin
from tests.integrations.vectors import documented, region_of

pytestmark = pytest.mark.once


def test_more_than_twenty_countries_are_documented() -> None:
    assert len({settings["COUNTRY_CODE"] for settings in documented()}) >= 20


@pytest.mark.parametrize("settings_of", documented(), ids=region_of)
def test_documented_settings_are_those_of_the_numbering_plan(settings_of: dict[str, str]) -> None:
    plan = cast(Any, PhoneMetadata.metadata_for_region(region_of(settings_of)))
    trunk = plan.national_prefix if plan.id != "US" else None  # North America's 1 is its country code, too
    assert settings_of.get("TRUNK_PREFIX") == trunk
    assert re.fullmatch(plan.international_prefix, settings_of["INTERNATIONAL_PREFIX"])
    lengths = {*plan.fixed_line.possible_length, *plan.mobile.possible_length}
    assert {int(length) for length in re.findall("[0-9]+", settings_of.get("NATIONAL_DIGITS", ""))} <= lengths
    assert "NATIONAL_DIGITS" in settings_of or trunk


def test_zero_stays_where_numbering_plans_keep_it() -> None:
    """Where there is no trunk prefix, and an example number begins with 0."""
    kept = {"379"}  # Vatican City's numbers are Italy's
    for code, (region, *_) in COUNTRY_CODE_TO_REGION_CODE.items():
        plan = cast(Any, PhoneMetadata.metadata_for_region(region))
        if plan and not plan.national_prefix:
            examples = [each.example_number or "" for each in (plan.fixed_line, plan.mobile)]
            kept |= {str(code)} if any(example.startswith("0") for example in examples) else set()
    for script in ("asterisk/callerid.py", "webhooks/call_webhooks.py"):
        assert kept == runpy.run_path(str(plugin.ROOT / "integrations" / script))["ZERO_STAYS"], script
