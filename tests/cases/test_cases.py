"""Every folder beside this file is a case, run by its kind."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from core import addons
from tests.cases import kinds
from tests.cases.case import FOLDERS, Case
from tests.plugin import SLOW_FIXTURES, of_addons

OF_ADDONS = {name: import_string(path) for name, path in of_addons("KINDS").items()}
KINDS = {name: getattr(kinds, name) for name in kinds.__all__} | OF_ADDONS
#: Otherwise a kind that is not there may be an add-on's.
HAS_ALL_KINDS = settings.ADDONS and set(settings.ADDONS).issuperset(addons.in_package())


def _fixtures(case: Case) -> list[str]:
    return list(signature(KINDS[case.kind]).parameters)[1:]


def _parameter(folder: Path) -> Any:
    case = Case.load(folder)
    if case.kind not in KINDS and not HAS_ALL_KINDS:
        return pytest.param(case, id=folder.name, marks=pytest.mark.skip(f"no add-on with the kind {case.kind}"))
    fixtures = set(_fixtures(case))
    marks = [pytest.mark.slow] if fixtures & SLOW_FIXTURES else []
    marks += [pytest.mark.django_db] if "db" in fixtures else []  # or no database is made for cases alone
    return pytest.param(case, id=folder.name, marks=marks)


@pytest.mark.parametrize("case", [_parameter(folder) for folder in FOLDERS])
def test_case(case: Case, request: pytest.FixtureRequest) -> None:
    KINDS[case.kind](case, **{name: request.getfixturevalue(name) for name in _fixtures(case)})
    assert case.data == {}, "not used by this kind"
