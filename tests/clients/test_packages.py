"""The packages of clients/: built, installed in an empty environment, and used as their READMEs say.

TEST_PACKAGES is a directory with `wheels`, what requirements/clients.lock lists, and `node_modules`, what
clients/javascript/package-lock.json lists; CONTRIBUTING.md says how to make it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin import ROOT
from tests.servers import Unavailable, required
from tests.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.once]

CLIENTS = ROOT / "clients"
NUMBER = "493023125555"


def packages() -> Path:
    directory = Path(os.environ.get("TEST_PACKAGES", "/nonexistent"))
    with required():
        if not (directory / "wheels").is_dir() or not (directory / "node_modules").is_dir():
            raise Unavailable("TEST_PACKAGES is no directory with wheels and node_modules")
    return directory


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The command's standard output. It finds nothing of this tree."""
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NODE_PATH")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**outside, "NO_PROXY": "*", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip_install(directory: Path, *requirements: str | Path) -> Path:
    """The interpreter of a new environment with these, from the downloaded wheels."""
    run(sys.executable, "-m", "venv", "--without-pip", directory, cwd=ROOT)
    python = directory / "bin" / "python"
    options: list[str | Path] = ["--no-index", "--find-links", packages() / "wheels", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *options, *requirements, cwd=ROOT)
    return python


def readme_program(client: str, service: Service, language: str) -> tuple[str, str]:
    """The first block of the client's README, with this service's URL, and a token."""
    service.manage("set_rule", NUMBER, "--spam", "yes", "--name", "Musterhaus Advisors")
    token = service.manage("create_token", client, "--credits", "3", "--quiet").strip()
    readme = (CLIENTS / client / "README.md").read_text(encoding="utf-8")
    block = re.search(rf"(?s)^```{language}\n(.+?)^```$", readme, re.MULTILINE)
    assert block
    return block[1].replace("https://callerid.example.org", service.url), token


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The Python client's wheel, built from its source distribution, and that."""
    directory = tmp_path_factory.mktemp("python")
    builder = pip_install(directory / "builder", "build", "flit-core")
    source = shutil.copytree(CLIENTS / "python", directory / "source", ignore=shutil.ignore_patterns("__pycache__"))
    run(builder, "-m", "build", "-q", "--no-isolation", "--outdir", directory, source, cwd=directory)
    (wheel,), (archive,) = directory.glob("*.whl"), directory.glob("*.tar.gz")
    return wheel, archive


def test_python_packages_have_licence_types_and_page(built: tuple[Path, Path]) -> None:
    wheel, archive = built
    with zipfile.ZipFile(wheel) as opened:
        (licence,) = [name for name in opened.namelist() if name.endswith("/LICENSE")]
        assert opened.read(licence) == (ROOT / "LICENSE").read_bytes()
        assert "callerid_client/py.typed" in opened.namelist()
        metadata = opened.read(licence.replace("licenses/LICENSE", "METADATA")).decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "# callerid-client for Python" in metadata
    with tarfile.open(archive) as opened_archive:
        names = {name.partition("/")[2] for name in opened_archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "callerid_client/py.typed"} <= names


def test_installed_python_client_searches(
    built: tuple[Path, Path], serve: Callable[..., Service], tmp_path: Path
) -> None:
    python = pip_install(tmp_path / "environment", built[0])
    program, token = readme_program("python", serve(), "python")
    source = f'import os\n\ntoken = os.environ["CALLERID_TOKEN"]\n{program}'
    (tmp_path / "program.py").write_text(source, encoding="utf-8")
    printed = run(python, "-I", "program.py", cwd=tmp_path, CALLERID_TOKEN=token)
    assert printed == "Musterhaus Advisors\nTrue\n2\n"
    options: list[str | Path] = ["--strict", "--config-file", "/dev/null", "--python-executable", python]
    run(sys.executable, "-m", "mypy", *options, "program.py", cwd=tmp_path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the JavaScript client installed, from its tarball."""
    outside = tmp_path_factory.mktemp("javascript")
    with required():
        if not (npm := shutil.which("npm")):
            raise Unavailable("there is no npm on PATH")
    cache = {"npm_config_cache": str(outside / "cache"), "npm_config_update_notifier": "false"}
    run(npm, "pack", CLIENTS / "javascript", "--pack-destination", outside, cwd=outside, **cache)
    (tarball,) = outside.glob("callerid-client-*.tgz")
    directory = outside / "empty"
    directory.mkdir()
    run(npm, "install", "--offline", "--no-audit", "--no-fund", tarball, cwd=directory, **cache)
    return directory


def test_javascript_package_has_licence_types_and_page(installed: Path) -> None:
    package = installed / "node_modules" / "callerid-client"
    names = {path.name for path in package.iterdir()}
    assert names == {"LICENSE", "README.md", "index.d.ts", "index.js", "package.json"}
    assert (package / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert json.loads((package / "package.json").read_text(encoding="utf-8"))["license"] == "Apache-2.0"


def test_installed_javascript_client_searches(installed: Path, serve: Callable[..., Service]) -> None:
    program, token = readme_program("javascript", serve(), "js")
    (installed / "program.mjs").write_text(program, encoding="utf-8")
    printed = run(shutil.which("node") or "node", "program.mjs", cwd=installed, CALLERID_TOKEN=token)
    assert printed == "Musterhaus Advisors\ntrue\n2\n"


def test_typescript_accepts_the_declarations(installed: Path) -> None:
    tsc = packages() / "node_modules" / ".bin" / "tsc"
    shutil.copy(Path(__file__).with_name("usage.ts"), installed / "usage.mts")
    options = ["--strict", "--noEmit", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2022"]
    run(tsc, *options, "--lib", "es2022,dom", "--types", "", "usage.mts", cwd=installed)
