"""Every folder beside this file is a case, run by its kind."""

from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from tests.cases import kinds
from tests.cases.case import Case
from tests.plugin import SLOW_FIXTURES

FOLDERS = sorted(file.parent for file in Path(__file__).parent.glob("*/case.toml"))


def _fixtures(case: Case) -> list[str]:
    return list(signature(getattr(kinds, case.kind)).parameters)[1:]


def _parameter(folder: Path) -> Any:
    case = Case.load(folder)
    fixtures = set(_fixtures(case))
    marks = [pytest.mark.slow] if fixtures & SLOW_FIXTURES else []
    marks += [pytest.mark.django_db] if "db" in fixtures else []  # or no database is made for cases alone
    return pytest.param(case, id=folder.name, marks=marks)


@pytest.mark.parametrize("case", [_parameter(folder) for folder in FOLDERS])
def test_case(case: Case, request: pytest.FixtureRequest) -> None:
    getattr(kinds, case.kind)(case, **{name: request.getfixturevalue(name) for name in _fixtures(case)})
    assert case.data == {}, "not used by this kind"
