"""Which numbers are searched for callers, by the settings."""

import runpy
from collections.abc import Mapping
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment
from contrib.telephones import conf, directory
from tests import plugin
from tests.cases.case import FOLDERS, Case
from tests.integrations.vectors import GERMANY, NATIONAL, NUMBERS, WRITTEN

CASES = [case for case in map(Case.load, FOLDERS) if case.kind == "callers"]


def use(settings: Any, given: Mapping[str, str]) -> None:
    """`given`: variables."""
    env = Environment()
    env.ENVIRON = dict(given)
    settings.COUNTRY_CODE = env.text("CALLERID_COUNTRY_CODE")
    settings.INTERNATIONAL_PREFIX = env.text("CALLERID_INTERNATIONAL_PREFIX", "00")
    for name, value in conf.read(env).items():
        setattr(settings, name, value)


@pytest.mark.parametrize(("given", "caller", "number"), NUMBERS + NATIONAL + WRITTEN)
def test_number_is_completed(given: dict[str, str], caller: str, number: str, settings: Any) -> None:
    use(settings, {f"CALLERID_{name}": value for name, value in given.items()})
    assert directory.full_number(caller) == number


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder.name)
def test_numbers_of_cases_are_completed(case: Case, settings: Any) -> None:
    use(settings, case.data["given"])
    expected = case.data["searched"]
    assert {caller: directory.full_number(caller) for caller in expected} == expected


@pytest.mark.parametrize(
    ("caller", "number"),
    [("+49 30\u20112312\u00a05555", "493023125555"), ("+49 (0)30 23125555", "493023125555"), ("1" * 300, "")],
)
def test_number_is_read_like_those_of_the_console(caller: str, number: str, settings: Any) -> None:
    use(settings, {f"CALLERID_{name}": value for name, value in GERMANY.items()})
    assert directory.full_number(caller) == number


def test_zero_stays_where_it_does_in_asterisk() -> None:
    script = runpy.run_path(str(plugin.ROOT / "integrations" / "asterisk" / "callerid.py"))
    assert script["ZERO_STAYS"] == directory.ZERO_STAYS


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("ten", "CALLERID_NATIONAL_DIGITS must be a whole number"),
        ("11-6", "must be a whole number from 1 to 14, or two as in 6-11"),
        ("6-15", "must be a whole number from 1 to 14, or two as in 6-11"),
    ],
)
def test_invalid_setting_is_reported(value: str, told: str, settings: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=told):
        use(settings, {"CALLERID_NATIONAL_DIGITS": value})
