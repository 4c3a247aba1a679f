"""The lock files match pyproject.toml, have hashes for everything, and name no package index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.plugin import ROOT

pytestmark = pytest.mark.once

RUNTIME, DEV = ROOT / "requirements/base.lock", ROOT / "requirements/dev.lock"
ORACLES, BENCH = ROOT / "requirements/oracles.lock", ROOT / "requirements/bench.lock"
TELEMETRY = ROOT / "requirements/telemetry.lock"
LINTERS = ROOT / "requirements/linters.lock"
DOCS = ROOT / "requirements/docs.lock"
DOTNET = ROOT / "requirements/dotnet.lock"
CLIENTS = ROOT / "requirements/clients.lock"
LOCKS = [RUNTIME, DEV, ORACLES, BENCH, TELEMETRY, DOCS, LINTERS, DOTNET, CLIENTS]
ENTRY = re.compile(
    r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)( ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def pins(lock: Path) -> set[tuple[str, str]]:
    """Names and versions; a name may have several, for different Pythons."""
    return {(canonicalize_name(match[1]), match[2]) for match in ENTRY.finditer(lock.read_text())}


def declared(part: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"].get(part, [])]


PARTS = [
    (RUNTIME, ""),
    (DEV, "dev"),
    (ORACLES, "oracles"),
    (BENCH, "bench"),
    (TELEMETRY, "otel"),
    (TELEMETRY, "sentry"),
    (DOCS, "docs"),
]


@pytest.mark.parametrize(("lock", "part"), PARTS)
def test_every_dependency_is_pinned_to_an_allowed_version(lock: Path, part: str) -> None:
    pinned = pins(lock)
    wrong = [str(wanted) for wanted in declared(part) if not allowed(wanted, pinned)]
    assert wrong == []


def allowed(wanted: Requirement, pinned: set[tuple[str, str]]) -> bool:
    name = canonicalize_name(wanted.name)
    return any(name == pin and wanted.specifier.contains(version) for pin, version in pinned)


def test_tests_run_on_the_deployed_versions() -> None:
    assert pins(RUNTIME) <= pins(DEV) <= pins(ORACLES)
    assert pins(DEV) <= pins(BENCH)
    assert pins(RUNTIME) <= pins(TELEMETRY) <= pins(DEV)


def test_documentation_and_tests_can_share_a_venv() -> None:
    tested = pins(DEV)
    names = {name for name, _ in tested}
    assert pins(RUNTIME) <= pins(DOCS)
    assert {pin for pin in pins(DOCS) if pin[0] in names} <= tested


def test_python_client_is_installed_with_what_it_was_tested_with() -> None:
    client = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())
    wanted = [Requirement(line) for line in client["project"]["dependencies"] + client["build-system"]["requires"]]
    assert all(allowed(requirement, pins(CLIENTS)) for requirement in wanted)
    names = {name for name, _ in pins(DEV)}
    assert {pin for pin in pins(CLIENTS) if pin[0] in names} <= pins(DEV)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_only_hashed_pins_and_comments(lock: Path) -> None:
    rest = ENTRY.sub("", lock.read_text())
    assert [line for line in rest.splitlines() if line and not line.lstrip().startswith("#")] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_names_no_index(lock: Path) -> None:
    assert "://" not in lock.read_text()
    assert "phonenumberslite" not in dict(pins(lock)), "it overwrites the files of phonenumbers"
