"""./run from another directory, below a path with spaces, in an empty environment."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from phonebook.imports.sample_data import DEMO_NUMBER
from tests.callerid_project.test_settings import manage
from tests.plugin import ROOT
from tests.servers import free_port

pytestmark = [pytest.mark.once, pytest.mark.slow]

TIMEOUT_S = 120


def run(*arguments: str, root: Path = ROOT, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`run arguments` in the directory `/`, with only PATH and `env`: not even HOME."""
    return subprocess.run(
        [root / "run", *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"], **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], expected: str, code: int = 1) -> None:
    assert expected in done.stderr
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.fixture(scope="session")
def _installed() -> None:
    """.venv exists, as after `./run test`."""
    subprocess.run([ROOT / "run", "manage", "version"], check=True, capture_output=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the working tree below a path with spaces, without .venv and data."""
    root = tmp_path / "a path with spaces"
    shutil.copytree(ROOT, root, ignore=lambda directory, names: [name for name in names if left_out(name)])
    return root


def left_out(name: str) -> bool:
    return name in ("var", "__pycache__") or (name.startswith(".") and name != ".gitignore")


class Running:
    """`./run`, started and read up to the curl that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.lines: list[str] = []
        for line in process.stdout:
            self.lines.append(line)
            if line.startswith("curl "):
                break
        else:
            raise AssertionError("it ended without printing a curl:\n" + "".join(self.lines))

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def curl(self) -> str:
        return self.lines[-1].strip()

    def interrupt(self) -> str:
        """Send Ctrl-C to the whole group, and return the output from then on. No process may be left."""
        return self._end(lambda: os.killpg(self.process.pid, signal.SIGINT))

    def terminate(self) -> str:
        """Send what a service manager sends, to the main process only."""
        return self._end(self.process.terminate)

    def _end(self, send: Any) -> str:
        send()
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        assert self.process.wait(30) == 0, rest
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        return rest


@contextlib.contextmanager
def running(root: Path, **environment: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [root / "run"],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PORT": str(free_port()), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    watchdog = threading.Timer(TIMEOUT_S, kill)
    watchdog.start()
    try:
        with process:
            try:
                yield Running(process)
            finally:
                kill()
    finally:
        watchdog.cancel()


def paste(command: str) -> dict[str, Any]:
    """The response to a printed curl command, run by a shell, or by requests if there is no curl."""
    if shutil.which("curl"):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return cast(dict[str, Any], json.loads(done.stdout))
    curl, silent, url, header, content_type, data, body = shlex.split(command)
    assert (curl, silent, header, data) == ("curl", "-s", "-H", "-d")
    name, _, value = content_type.partition(": ")
    return cast(dict[str, Any], requests.post(url, body, headers={name: value}, timeout=10).json())


# --- Starting ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_installed")
def test_the_printed_curl_works_and_a_second_run_changes_nothing(copy: Path) -> None:
    (copy / ".venv").symlink_to(ROOT / ".venv")
    with running(copy) as first:
        answer = paste(first.curl)
        rest = first.interrupt()
    data = answer["data"]
    assert all((data["source_a"]["name"], data["source_a"]["location"], data["source_b"]["name"]))
    assert data["source_b"]["spam"] is True
    assert (data["phone_number"], answer["credits_remaining"]) == (DEMO_NUMBER, 999)
    assert re.search(r"^ +admin +http://127\.0\.0\.1:\d+/admin/$", first.output, re.MULTILINE)
    assert "Traceback" not in first.output + rest

    kept = copy / "var" / "demo_token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert first.output.count(kept.read_text().strip()) == 1  # in the curl, and in no log line
    [password] = re.findall(r"password (\S{12,})", first.output)

    before = {path: path.read_bytes() for path in (kept, copy / "var" / "keys.json")}
    with running(copy) as second:
        answer = paste(second.curl)
        rest = second.terminate()
    assert answer["credits_remaining"] == 998
    assert second.lines[0] == "Everything is up to date.\n"
    assert password not in second.output
    assert "Traceback" not in second.output + rest
    assert {path: path.read_bytes() for path in before} == before
    assert not list((copy / "var").glob(".*")), "drafts are left behind"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000/"),
        ("0.0.0.0", "http://127.0.0.1:8000/"),
        ("::", "http://127.0.0.1:8000/"),
        ("::1", "http://[::1]:8000/"),
        ("localhost", "http://localhost:8000/"),
    ],
)
def test_the_printed_address_can_be_requested(tmp_path: Path, host: str, url: str) -> None:
    script = "from callerid_project import announce; print(announce.message())"
    assert (
        f"curl -s {url}callerid/search -H" in manage(tmp_path, "shell", "--no-imports", "-c", script, HOST=host).stdout
    )


# --- Error messages ----------------------------------------------------------------------------------------------


def test_help_lists_every_command() -> None:
    done = run("help")
    assert (done.returncode, done.stderr) == (0, "")
    listed = re.findall(r"^\./run( \w+)?", done.stdout, re.MULTILINE)
    assert list(dict.fromkeys(listed)) == ["", " serve", " manage", " test", " docs", " help"]


@pytest.mark.parametrize("arguments", [("strat",), ("",), ("serve", "now"), ("help", "me"), ("docs", "away")])
def test_an_unknown_command_gets_one_sentence(arguments: tuple[str, ...]) -> None:
    assert_one_sentence(run(*arguments), "./run help lists the commands", code=2)


@pytest.mark.usefixtures("_installed")
def test_a_port_in_use_is_reported_and_nothing_is_created(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(env={"PORT": str(port), "CALLERID_DATA_DIR": str(tmp_path / "data")})
    assert_one_sentence(done, f"Port {port} is in use")
    assert not (tmp_path / "data").exists()


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PORT": "http"}, "PORT must be a whole number"),
        ({"PORT": "0"}, "PORT must be a whole number"),
        ({"HOST": "nowhere.invalid"}, "HOST=nowhere.invalid is not an address"),
        ({"HOST": "192.0.2.1"}, "Cannot listen on 192.0.2.1"),
        ({"SOURCE_A": "no.such.Source"}, "SOURCE_A"),
    ],
)
@pytest.mark.parametrize("command", [(), ("serve",)])
def test_invalid_settings_are_reported_before_the_server_starts(
    tmp_path: Path, command: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    done = run(*command, env={"PORT": str(free_port()), "CALLERID_DATA_DIR": str(tmp_path), **environment})
    assert expected in done.stderr
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("_installed")
def test_an_unusable_data_directory_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(env={"PORT": str(free_port()), "CALLERID_DATA_DIR": str(tmp_path / "file" / "data")})
    assert_one_sentence(done, f"Cannot use the data directory {tmp_path}/file/data")


@pytest.mark.usefixtures("_installed")
def test_a_relative_data_directory_is_relative_to_the_caller(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "run", "manage", "migrate", "--verbosity=0"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "CALLERID_DATA_DIR": "here"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "callerid.sqlite3").exists()


@pytest.mark.usefixtures("_installed")
def test_manage_prints_only_the_output_of_the_command(tmp_path: Path) -> None:
    environment = {"CALLERID_DATA_DIR": str(tmp_path)}
    run("manage", "migrate", env=environment)
    done = run("manage", "create_token", "pbx", "--credits", "100", "--quiet", env=environment)
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", done.stdout)


# --- The interpreter and .venv -----------------------------------------------------------------------------------


def fake_python(directory: Path, before: str) -> str:
    """An interpreter that runs `before` ahead of any `-c` code, and is otherwise the real one."""
    path = directory / "python"
    path.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -c ] && exec {shlex.quote(sys.executable)} -c {shlex.quote(before)}"$2"\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("import sys; sys.version_info = (3, 10, 4)\n", "Python 3.11 or newer is required, but {} is Python 3.10.4"),
        ("import sys; sys.modules['venv'] = None\n", "{} has no venv module"),
        ("import sys; sys.modules['ensurepip'] = None\n", "{} has no venv module"),
        ("raise SystemExit('no')\n", "{} does not run"),
    ],
)
def test_an_unsuitable_interpreter_gets_one_sentence(copy: Path, tmp_path: Path, before: str, expected: str) -> None:
    python = fake_python(tmp_path, before)
    assert_one_sentence(run(root=copy, env={"PYTHON": python}), expected.format(python))
    assert not (copy / ".venv").exists()


def test_a_missing_python_gets_one_sentence(copy: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    assert_one_sentence(run(root=copy, env={"PATH": str(tools)}), "there is no python3")


def test_a_failing_launcher_is_skipped(copy: Path, tmp_path: Path) -> None:
    """Version managers put a `python3` on PATH that fails if no version is selected."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").write_text("#!/bin/sh\nexit 127\n")
    (tools / "python3").chmod(0o755)
    (tools / "python3.11").symlink_to(sys.executable)
    (copy / ".venv").touch()
    done = run("manage", "version", root=copy, env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert done.stderr.startswith("Creating .venv with Python 3.")


def test_a_venv_that_cannot_be_created_gets_one_sentence(copy: Path) -> None:
    (copy / ".venv").touch()
    done = run("manage", "version", root=copy)
    assert f"Cannot create {copy}/.venv: " in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (1, "")


def test_venv_matches_the_lock_and_an_incomplete_is_recreated(copy: Path) -> None:
    """With empty lock files and a manage.py without imports, so without network."""
    for lock in ("requirements/base.lock", "requirements/dev.lock"):
        (copy / lock).write_text("# nothing\n")
    (copy / "manage.py").write_text("import sys; print(sys.argv[1:])\n")

    def manage() -> str:
        done = run("manage", "a b", "c", root=copy)
        assert (done.returncode, done.stdout) == (0, "['a b', 'c']\n"), done.stderr
        return done.stderr

    made = manage()
    assert made.startswith("Creating .venv with Python 3.")
    assert manage() == ""

    stray = copy / ".venv" / "stray"
    stray.touch()
    (copy / "requirements/dev.lock").write_text("# nothing else\n")
    assert manage() == "", "the service does not need the development tools"
    (copy / "requirements/base.lock").write_text("# nothing more\n")
    assert "Installing requirements/base.lock" in manage()
    assert not stray.exists()

    (copy / ".venv" / "installed" / "python").unlink()
    assert manage() == made
    assert manage() == ""


def test_a_failed_download_is_reported_and_retried(copy: Path) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    for _ in range(2):
        done = run("manage", "version", root=copy, env=offline)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.rstrip().endswith("Check the network, then run ./run again.")
        assert "Creating .venv" in done.stderr
        assert "Traceback" not in done.stderr
