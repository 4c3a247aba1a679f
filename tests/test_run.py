"""./run as a stranger meets it: from another directory, below a path with spaces, in an empty environment."""

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

from callerid_project import announce
from lookup.datasets.samples import DEMO_NUMBER
from tests.plugin import ROOT, generated_keys
from tests.servers import free_port

pytestmark = pytest.mark.once

PATIENCE_S = 120


def run(*arguments: str, root: Path = ROOT, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`run arguments` from the top directory, with PATH and `env` alone: not even HOME."""
    return subprocess.run(
        [root / "run", *arguments],
        cwd="/",
        env={"PATH": os.environ["PATH"], **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], expected: str, code: int = 1) -> None:
    assert expected in done.stderr
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.fixture(scope="session")
def _installed() -> None:
    """.venv is there, as it is after `./run test`."""
    subprocess.run([ROOT / "run", "manage", "version"], check=True, capture_output=True)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The working tree below a path with spaces, without .venv and data."""
    root = tmp_path / "a path with spaces"
    shutil.copytree(ROOT, root, ignore=lambda directory, names: [name for name in names if left_out(name)])
    return root


def left_out(name: str) -> bool:
    return name in ("var", "__pycache__") or (name.startswith(".") and name != ".gitignore")


class Running:
    """`./run`, started and read as far as the curl that it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.lines: list[str] = []
        for line in process.stdout:
            self.lines.append(line)
            if line.startswith("curl "):
                break
        else:
            raise AssertionError("it ended without a curl:\n" + "".join(self.lines))

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def curl(self) -> str:
        return self.lines[-1].strip()

    def interrupt(self) -> str:
        """Ctrl-C reaches the whole group; what it wrote then. Nothing may be left running."""
        return self._end(lambda: os.killpg(self.process.pid, signal.SIGINT))

    def terminate(self) -> str:
        """What a service manager sends, to the main process alone."""
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

    watchdog = threading.Timer(PATIENCE_S, kill)
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
    """The answer to a printed curl, as a shell runs it; where there is no curl, the same request without one."""
    if shutil.which("curl"):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
        return cast(dict[str, Any], json.loads(done.stdout))
    curl, silent, url, header, content_type, data, body = shlex.split(command)
    assert (curl, silent, header, data) == ("curl", "-s", "-H", "-d")
    name, _, value = content_type.partition(": ")
    return cast(dict[str, Any], requests.post(url, body, headers={name: value}, timeout=10).json())


# --- Starting ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_installed")
def test_a_fresh_copy_answers_the_curl_that_it_prints_and_a_second_run_changes_nothing(copy: Path) -> None:
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
    assert second.lines[0] == "Everything is in place.\n"
    assert password not in second.output
    assert "Traceback" not in second.output + rest
    assert {path: path.read_bytes() for path in before} == before
    assert not list((copy / "var").glob(".*")), "drafts are left behind"


@pytest.mark.usefixtures("_installed")
def test_production_makes_no_demo_and_says_how_to_make_a_token(
    tmp_path: Path, postgres_url: str, redis_url: str
) -> None:
    environment = {
        **generated_keys(),
        "DATABASE_URL": postgres_url,
        "REDIS_URL": redis_url,
        "WORKERS": "2",
        "CALLERID_DATA_DIR": str(tmp_path / "unused"),
    }
    with running(ROOT, **environment) as service:
        assert "demo token" not in service.output
        assert "password" not in service.output
        assert paste(service.curl) == {"detail": "Invalid or missing token"}
        rest = service.interrupt()
    assert "./run manage create_token" in rest
    assert "./run manage createsuperuser" in rest
    assert not (tmp_path / "unused").exists()


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
def test_the_printed_address_can_be_asked(host: str, url: str) -> None:
    assert f"curl -s {url}callerid/search -H" in announce.message(host, 8000, "key")


def test_the_printed_number_is_the_one_that_the_sample_data_knows() -> None:
    assert announce.DEMO_NUMBER == DEMO_NUMBER


# --- What it says when it cannot ---------------------------------------------------------------------------------


def test_help_lists_every_command() -> None:
    done = run("help")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^\./run( \w+)?", done.stdout, re.MULTILINE) == ["", " serve", " manage", " test", " help"]


@pytest.mark.parametrize("arguments", [("strat",), ("",), ("serve", "now"), ("help", "me")])
def test_an_unknown_word_gets_one_sentence(arguments: tuple[str, ...]) -> None:
    assert_one_sentence(run(*arguments), "./run help lists what there is", code=2)


@pytest.mark.usefixtures("_installed")
def test_a_busy_port_gets_one_sentence_and_nothing_is_made(tmp_path: Path) -> None:
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
        ({"WORKERS": "2"}, "REDIS_URL is not set"),
        ({"SOURCE_A": "no.such.Source"}, "SOURCE_A"),
    ],
)
@pytest.mark.parametrize("command", [(), ("serve",)])
def test_a_setting_that_cannot_work_is_told_before_the_server_starts(
    tmp_path: Path, command: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    done = run(*command, env={"PORT": str(free_port()), "CALLERID_DATA_DIR": str(tmp_path), **environment})
    assert expected in done.stderr
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("_installed")
def test_a_data_directory_that_cannot_be_made_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(env={"PORT": str(free_port()), "CALLERID_DATA_DIR": str(tmp_path / "file" / "data")})
    assert_one_sentence(done, f"Cannot use the data directory {tmp_path}/file/data")


@pytest.mark.usefixtures("_installed")
def test_a_relative_data_directory_is_where_the_caller_stands(tmp_path: Path) -> None:
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
def test_the_output_of_manage_is_the_command_s_alone(tmp_path: Path) -> None:
    environment = {"CALLERID_DATA_DIR": str(tmp_path)}
    run("manage", "migrate", env=environment)
    done = run("manage", "create_token", "pbx", "--credits", "100", "--quiet", env=environment)
    assert re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+\n", done.stdout)


# --- The interpreter and .venv -----------------------------------------------------------------------------------


def fake_python(directory: Path, before: str) -> str:
    """An interpreter that runs `before` ahead of what it is told by `-c`, and is itself in all else."""
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
        ("import sys; sys.version_info = (3, 10, 4)\n", "Python 3.11 or newer is needed, but {} is Python 3.10.4"),
        ("import sys; sys.modules['venv'] = None\n", "{} has no venv module"),
        ("import sys; sys.modules['ensurepip'] = None\n", "{} has no venv module"),
        ("raise SystemExit('no')\n", "{} does not run"),
    ],
)
def test_an_interpreter_that_cannot_do_gets_one_sentence(
    copy: Path, tmp_path: Path, before: str, expected: str
) -> None:
    python = fake_python(tmp_path, before)
    assert_one_sentence(run(root=copy, env={"PYTHON": python}), expected.format(python))
    assert not (copy / ".venv").exists()


def test_no_python_at_all_gets_one_sentence(copy: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "dirname"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    assert_one_sentence(run(root=copy, env={"PATH": str(tools)}), "there is no python3")


def test_a_launcher_that_fails_is_passed_over(copy: Path, tmp_path: Path) -> None:
    """Version managers put a `python3` on PATH that only says that no version is chosen."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").write_text("#!/bin/sh\nexit 127\n")
    (tools / "python3").chmod(0o755)
    (tools / "python3.11").symlink_to(sys.executable)
    (copy / ".venv").touch()
    done = run("manage", "version", root=copy, env={"PATH": f"{tools}:/usr/bin:/bin"})
    assert done.stderr.startswith("Making .venv with Python 3.")


def test_a_place_where_venv_cannot_be_made_gets_one_sentence(copy: Path) -> None:
    (copy / ".venv").touch()
    done = run("manage", "version", root=copy)
    assert f"Cannot make {copy}/.venv: " in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode, done.stdout) == (1, "")


def test_what_is_installed_is_what_the_lock_says_and_a_half_made_venv_is_made_anew(copy: Path) -> None:
    """With locks that list nothing, and a manage.py that needs nothing: no network is asked."""
    for lock in ("requirements.lock", "requirements-dev.lock"):
        (copy / lock).write_text("# nothing\n")
    (copy / "manage.py").write_text("import sys; print(sys.argv[1:])\n")

    def manage() -> str:
        done = run("manage", "a b", "c", root=copy)
        assert (done.returncode, done.stdout) == (0, "['a b', 'c']\n"), done.stderr
        return done.stderr

    made = manage()
    assert made.startswith("Making .venv with Python 3.")
    assert manage() == ""

    stray = copy / ".venv" / "stray"
    stray.touch()
    (copy / "requirements-dev.lock").write_text("# nothing else\n")
    assert manage() == "", "the tools of the tests are no concern of the service"
    (copy / "requirements.lock").write_text("# nothing more\n")
    assert "Installing requirements.lock" in manage()
    assert not stray.exists()

    (copy / ".venv" / "installed" / "python").unlink()
    assert manage() == made
    assert manage() == ""


def test_a_download_that_fails_gets_a_sentence_and_is_tried_again(copy: Path) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    for _ in range(2):
        done = run("manage", "version", root=copy, env=offline)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.rstrip().endswith("check the network, then ./run again.")
        assert "Making .venv" in done.stderr
        assert "Traceback" not in done.stderr
