"""The way without systemd and without root: install.sh with a prefix, and the shipped file for a supervisor."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.api import NUMBER
from tests.load import wait_for
from tests.plugin import ROOT
from tests.servers import Unavailable, free_port, required

pytestmark = [pytest.mark.once, pytest.mark.slow]

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program's folder, because install.sh writes to it, with the dependencies of this one."""
    ignored = shutil.ignore_patterns(".*", "var", "docs", "tests", "__pycache__", "node_modules")
    tree = Path(shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "app", ignore=ignored))
    (tree / ".venv").symlink_to(ROOT / ".venv")
    return tree


def installed(tree: Path, prefix: Path) -> subprocess.CompletedProcess[str]:
    """install.sh PREFIX, with the environment of a user."""
    return subprocess.run(
        [tree / "deploy" / "systemd" / "install.sh", prefix],
        env={"PATH": os.environ["PATH"], "HOME": str(prefix.parent)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_service_below_a_prefix_runs_under_a_supervisor(
    tree: Path, tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    prefix, port = tmp_path / "srv", free_port()
    assert "Created" in installed(tree, prefix).stdout
    env_file = prefix / "etc" / "callerid.env"
    assert stat.S_IMODE(env_file.stat().st_mode) == 0o600
    text = env_file.read_text()
    assert f"CALLERID_DATA_DIR={prefix}/var\n" in text
    assert len(set(re.findall(r"^[A-Z_]+_KEY=(.{40,})$", text, re.MULTILINE))) == 3
    for name, value in {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "ALLOWED_HOSTS": "127.0.0.1"}.items():
        text = re.sub(f"^{name}=.*", f"{name}={value}", text, flags=re.MULTILINE)
    env_file.write_text(text)
    assert installed(tree, prefix).stdout == ""
    assert env_file.read_text() == text  # an upgrade keeps it

    # Without the environment of this test: what the supervisor starts has that of the file.
    clean = {"PATH": os.environ["PATH"]}

    command = [str(prefix / "bin" / "callerid")]

    def callerid(*arguments: str) -> str:
        return subprocess.run([*command, *arguments], env=clean, capture_output=True, text=True, check=True).stdout

    doctor = subprocess.run([*command, "doctor"], env=clean, capture_output=True, text=True, check=False)
    assert f"Run {prefix}/bin/callerid --owner migrate." in doctor.stdout
    callerid("migrate", "--verbosity=0")
    key = callerid("create_token", "pbx", "--credits", "3", "--quiet").strip()
    run = tmp_path / "run"
    shipped = (DEPLOY / "supervisor" / "run").read_text()
    for here, there in {"8001": str(port), "/usr/local/bin/callerid": str(prefix / "bin" / "callerid")}.items():
        assert shipped.count(here) == 1
        shipped = shipped.replace(here, there)
    run.write_text(shipped)
    run.chmod(0o755)
    with (tmp_path / "log").open("wb") as log:
        service = subprocess.Popen([run], env=clean, cwd="/", stdout=log, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:

        def ready() -> bool:
            assert service.poll() is None, (tmp_path / "log").read_text()
            try:
                return requests.get(f"{url}/readyz", timeout=5).status_code == 200
            except requests.RequestException:
                return False

        wait_for(ready)
        answer = requests.post(f"{url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)
        assert answer.json()["credits_remaining"] == 2
        service.send_signal(signal.SIGTERM)
        assert service.wait(60) in (0, -signal.SIGTERM)
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        assert [line for line in lines if line.get("message", "").startswith("started: ")]
    finally:
        if service.poll() is None:
            os.killpg(service.pid, signal.SIGKILL)
            service.wait()


def test_the_command_below_a_prefix_never_means_sqlite(tree: Path, tmp_path: Path) -> None:
    installed(tree, tmp_path)
    env_file = tmp_path / "etc" / "callerid.env"
    env_file.write_text(re.sub("^DATABASE_URL=.*\n", "", env_file.read_text(), flags=re.MULTILINE))
    done = subprocess.run(
        [tmp_path / "bin" / "callerid", "prune"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"{env_file} exists but DATABASE_URL is not set" in done.stderr
    assert list((tmp_path / "var").iterdir()) == []
    for arguments in ([], ["serve"], ["manage", "prune"]):  # without the environment
        run = subprocess.run(
            [tree / "run", *arguments], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stdout) == (1, "")
        assert f"{tree} is a production service but DATABASE_URL is not set" in run.stderr
        assert f"`{tmp_path}/bin/callerid COMMAND`" in run.stderr
        assert not (tree / "var").exists()


@pytest.mark.parametrize("count", ["0", "100", "two", "/srv/callerid"])
def test_an_unusable_number_of_instances_is_refused(count: str) -> None:
    done = subprocess.run([DEPLOY / "systemd" / "install.sh", "--start", count], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "install.sh: COUNT must be a number from 1 to 99, such as --start 2\n"


@pytest.mark.parametrize("prefix", ["srv/callerid", "/srv/a b", "/srv/a|b"])
def test_an_unusable_prefix_is_refused(prefix: str) -> None:
    done = subprocess.run(
        [DEPLOY / "systemd" / "install.sh", prefix], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(("install.sh: PREFIX must be an absolute path", "install.sh: /"))


#: As root, in a mount namespace where the changed directories are copies or empty; the host's stay as they are.
SYSTEM_INSTALLATION = """
cp -a /etc "$1/etc" && mkdir -p "$1/opt/callerid" "$1/bin" "$1/lib"
mount --bind "$1/etc" /etc && mount --bind "$1/opt" /opt && mount --bind "$2" /opt/callerid
mount --bind "$1/bin" /usr/local/bin && mount --bind "$1/lib" /var/lib
/opt/callerid/deploy/systemd/install.sh >&2
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system
printf '#!/bin/sh\necho "$*" >>"%s/calls"\n' "$1" >"$1/bin/systemctl" && chmod 0755 "$1/bin/systemctl"
PATH=/usr/local/bin:$PATH /opt/callerid/deploy/systemd/install.sh --start 3 >&2
rm /usr/local/bin/systemctl && cat "$1/calls" /opt/callerid/.installed
cd /usr/local/bin && printf '#!/bin/sh\necho "$(id -un) ${HOME-}"\n' >run && chmod 0755 run
CALLERID_ROOT=/usr/local/bin HOME=/root ./callerid prune
cd /etc/systemd/system
stat -c '%U:%G %a %n' /etc/callerid/*.env /var/lib/callerid /usr/local/bin/callerid callerid*
grep -h EnvironmentFile= callerid@8000.service.d/console.conf
"""


def test_as_root_it_installs_user_command_and_units(tree: Path, tmp_path: Path) -> None:
    with required():
        if os.getuid() or not shutil.which("unshare"):
            raise Unavailable("installing for the system needs root and unshare")
        # The user callerid has to run it; one in a home directory is refused, with what to do.
        if str(Path(sys.executable).resolve()).startswith(("/root/", "/home/")):
            pytest.skip("this Python is in a home directory")
    tmp_path.chmod(0o755)
    command = ["unshare", "--mount", "sh", "-euc", SYSTEM_INSTALLATION, "sh", str(tmp_path), str(tree)]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    units = sorted(unit.name for unit in (DEPLOY / "systemd").glob("callerid*.[st]*"))
    assert done.stdout.splitlines() == [
        "daemon-reload",
        f"enable --now callerid.target {' '.join(f'callerid@{port}.service' for port in range(8000, 8004))}",
        "callerid",
        "callerid ",
        "root:callerid 640 /etc/callerid/callerid.env",
        "root:root 644 /etc/callerid/console.env",
        "callerid:callerid 700 /var/lib/callerid",
        "root:root 755 /usr/local/bin/callerid",
        *(f"root:root {755 if unit.endswith('.d') else 644} {unit}" for unit in units),
        "EnvironmentFile=/etc/callerid/console.env",
    ]
