"""What the shipped files of an installation do."""

import os
import subprocess
from pathlib import Path

from tests.cases.case import Case
from tests.plugin import ROOT


def command_environment(case: Case, tmp_path: Path) -> None:
    """The environment that the command `callerid` gives to the program, which here prints it."""
    (tmp_path / "run").write_text("#!/bin/sh\nexec env -0\n")
    (tmp_path / "run").chmod(0o755)
    files = {"CALLERID_ENV_FILE": "callerid.env", "CALLERID_OWNER_ENV_FILE": "owner.env"}
    fixed = {name: str(case.folder / file) for name, file in files.items()} | {"CALLERID_ROOT": str(tmp_path)}
    got: list[object] = []
    expected: list[object] = []
    for run in case.data.pop("runs"):
        done = subprocess.run(
            [ROOT / "deploy" / "systemd" / "callerid", *run["command"].split()],
            env={"PATH": os.environ["PATH"], **fixed, **run.get("given", {})},
            capture_output=True,
            text=True,
            check=True,
        )
        environment = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        used, unset = run["used"], run.get("unset", [])
        said = [line.removeprefix("callerid: ").replace(f"{case.folder}/", "") for line in done.stderr.splitlines()]
        got.append(({name: environment[name] for name in used}, [name for name in unset if name in environment], said))
        expected.append((used, [], run.get("said", [])))
    assert got == expected
