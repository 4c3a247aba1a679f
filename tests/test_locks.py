"""The locks are current with pyproject.toml, hashed throughout, and bind nobody to an index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.plugin import ROOT

pytestmark = pytest.mark.once

RUNTIME, DEV = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
ORACLES, BENCH = ROOT / "requirements-oracles.lock", ROOT / "requirements-bench.lock"
ENTRY = re.compile(
    r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)( ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def pins(lock: Path) -> set[tuple[str, str]]:
    """Names and versions: a name may have several, each for other Pythons."""
    return {(canonicalize_name(match[1]), match[2]) for match in ENTRY.finditer(lock.read_text())}


def declared(part: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"].get(part, [])]


@pytest.mark.parametrize(("lock", "part"), [(RUNTIME, ""), (DEV, "dev"), (ORACLES, "oracles"), (BENCH, "bench")])
def test_every_dependency_is_pinned_to_a_version_that_it_allows(lock: Path, part: str) -> None:
    pinned = pins(lock)
    wrong = [str(wanted) for wanted in declared(part) if not allowed(wanted, pinned)]
    assert wrong == []


def allowed(wanted: Requirement, pinned: set[tuple[str, str]]) -> bool:
    name = canonicalize_name(wanted.name)
    return any(name == pin and wanted.specifier.contains(version) for pin, version in pinned)


def test_the_tests_run_on_what_is_deployed() -> None:
    assert pins(RUNTIME) <= pins(DEV) <= pins(ORACLES)
    assert pins(DEV) <= pins(BENCH)


@pytest.mark.parametrize("lock", [RUNTIME, DEV, ORACLES, BENCH])
def test_a_lock_holds_hashed_pins_and_comments_alone(lock: Path) -> None:
    rest = ENTRY.sub("", lock.read_text())
    assert [line for line in rest.splitlines() if line and not line.lstrip().startswith("#")] == []


@pytest.mark.parametrize("lock", [RUNTIME, DEV, ORACLES, BENCH])
def test_a_lock_names_no_index(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert "phonenumberslite" not in dict(pins(lock)), "it overwrites the files of phonenumbers"
