"""Each program in examples/ does what docs/clients.md says: with the service, and with a scripted server."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import load
from tests.examples.cases import CASES, NUMBER, Case, Script
from tests.plugin import ROOT
from tests.servers import Unavailable, free_port, required
from tests.service import Service
from tests.upstream import Upstream

pytestmark = [pytest.mark.slow, pytest.mark.once]

EXAMPLES = ROOT / "examples"


def tool(name: str) -> str:
    if path := shutil.which(name):
        return path
    raise Unavailable(f"there is no {name} on PATH")


def curl(directory: Path) -> list[str]:
    for name in ("curl", "jq"):
        tool(name)
    return [tool("bash"), str(EXAMPLES / "curl" / "callerid.sh")]


def go(directory: Path) -> list[str]:
    binary = directory / "callerid"
    environment = {**os.environ, "GOCACHE": str(directory / "go-cache"), "GOFLAGS": "", "GO111MODULE": "auto"}
    build([tool("go"), "build", "-o", str(binary), str(EXAMPLES / "go" / "callerid.go")], environment)
    return [str(binary)]


#: What a .NET SDK generates for an async Main, which Mono's compiler does not do with .NET's assemblies.
CSHARP_ENTRY_POINT = """
static class EntryPoint { static int Main(string[] args) { return Program.Main(args).GetAwaiter().GetResult(); } }
"""


def csharp(directory: Path) -> list[str]:
    """Compiled by Mono with the assemblies of .NET Core 3.1 (it cannot read those of .NET 8), and run on .NET 8."""
    if platform.machine() != "x86_64":
        pytest.skip("requirements/dotnet.lock has packages for x86-64 only")
    installed = Path(os.environ.get("TEST_DOTNET", "/nonexistent"))
    assemblies = installed / "dotnetcore2" / "bin" / "shared" / "Microsoft.NETCore.App"
    dotnet = installed / "dnv" / "net" / "runtime" / ".net" / "dotnet"
    if not dotnet.exists() or not assemblies.exists():
        raise Unavailable("TEST_DOTNET is no directory with what requirements/dotnet.lock lists")
    references = [f"-r:{path}" for path in assemblies.glob("*/System*.dll") if "WindowsRuntime" not in path.name]
    entry_point, assembly = directory / "EntryPoint.cs", directory / "callerid.dll"
    entry_point.write_text(CSHARP_ENTRY_POINT)
    configuration = {
        "framework": {"name": "Microsoft.NETCore.App", "version": "8.0.0"},
        "configProperties": {"System.Globalization.Invariant": True},
    }
    assembly.with_suffix(".runtimeconfig.json").write_text(json.dumps({"runtimeOptions": configuration}))
    options = ["-langversion:latest", "-nowarn:28,1702", "-nostdlib", "-noconfig", "-main:EntryPoint"]
    sources = [str(EXAMPLES / "csharp" / "Program.cs"), str(entry_point)]
    build([tool("mcs"), *options, f"-out:{assembly}", *references, *sources], dict(os.environ))
    dotnet.chmod(0o755)
    return [str(dotnet), str(assembly)]


def build(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


#: How to run each, after what has to be built in a directory.
PROGRAMS: dict[str, Callable[[Path], list[str]]] = {
    "curl": curl,
    "requests": lambda _: [sys.executable, str(EXAMPLES / "python" / "requests_example.py")],
    "httpx": lambda _: [sys.executable, str(EXAMPLES / "python" / "httpx_example.py")],
    "javascript": lambda _: [tool("node"), str(EXAMPLES / "javascript" / "callerid.mjs")],
    "php": lambda _: [tool("php"), str(EXAMPLES / "php" / "callerid.php")],
    "go": go,
    "csharp": csharp,
}


def run(command: list[str], url: str, token: str, number: str = NUMBER) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CALLERID_URL": url, "CALLERID_TOKEN": token, "NO_PROXY": "*"}
    command = [*command, number]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@dataclass
class Outcome:
    done: subprocess.CompletedProcess[str]
    server: Upstream
    times: list[float]


def follow(command: list[str], case: Case) -> Outcome:
    script = Script(case.script)
    server = Upstream(script).start()
    try:
        return Outcome(run(command, server.url + case.url_ends, "token"), server, script.times)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """The command of a language's program, built once. Raises Unavailable."""

    @cache
    def built(language: str) -> list[str]:
        return PROGRAMS[language](tmp_path_factory.mktemp(language))

    return built


@pytest.fixture(scope="module")
def outcomes(command: Callable[[str], list[str]]) -> Iterator[Callable[[str, str], Outcome]]:
    """The outcome of a language's program in a case. The first call runs all cases of the language: most only wait."""
    with ThreadPoolExecutor(4) as pool:

        @cache
        def started(language: str) -> dict[str, Future[Outcome]]:
            built = command(language)
            return {name: pool.submit(follow, built, case) for name, case in CASES.items()}

        yield lambda language, name: started(language)[name].result()


each_language = pytest.mark.parametrize("language", PROGRAMS)


@each_language
@pytest.mark.parametrize("name", CASES)
def test_an_example_does_what_the_docs_say(outcomes: Callable[[str, str], Outcome], language: str, name: str) -> None:
    case = CASES[name]
    with required():
        outcome = outcomes(language, name)
    done = outcome.done
    assert (done.returncode, len(outcome.times)) == (case.exit_code, case.requests), done.stderr
    if case.exit_code:
        assert done.stderr.startswith(case.says)
        assert not done.stdout
    else:
        assert (done.stdout, done.stderr) == (case.says, "")
    for body in outcome.server.bodies:
        assert json.loads(body) == {"api_key": "token", "query": NUMBER}
    heads = [head.decode() for head in outcome.server.heads]
    assert all(head.startswith("POST /callerid/search HTTP/1.1\r\n") for head in heads)
    keys = [re.findall(r"(?im)^Idempotency-Key: ([!-~]{32,36})\r?$", head) for head in heads]
    assert all(len(found) == 1 for found in keys)
    assert len({found[0] for found in keys}) == 1
    assert outcome.times[-1] - outcome.times[0] >= case.waits_s


@each_language
def test_an_example_without_a_server_or_arguments(command: Callable[[str], list[str]], language: str) -> None:
    with required():
        built = command(language)
    refused = run(built, f"http://127.0.0.1:{free_port()}", "token")
    assert (refused.returncode, refused.stdout, refused.stderr) == (8, "", "No response\n")
    misused = run(built, "", "")
    assert (misused.returncode, misused.stdout) == (2, "")
    assert misused.stderr.startswith("Usage: CALLERID_URL=... CALLERID_TOKEN=... ")


def test_examples_work_with_the_service(
    command: Callable[[str], list[str]], serve: Callable[..., Service], subtests: pytest.Subtests
) -> None:
    service = serve(RATE_LIMIT="3/h")
    service.manage("set_rule", NUMBER, "--spam", "yes", "--name", "Example Bakery")
    tokens = load.create_tokens(service, len(PROGRAMS), credits=1)
    for language, token in zip(PROGRAMS, tokens, strict=True):
        with subtests.test(language), required():
            built = command(language)
            done = run(built, service.url, token)
            assert (done.returncode, done.stdout) == (0, "Name:  Example Bakery\nPlace: unknown\nSpam:  yes\n"), (
                done.stderr
            )
    # The errors are of the service alone, so one program is enough.
    with required():
        built = command("curl")
    searches = [(tokens[0], "+1 212 555 0142"), (tokens[0], NUMBER), (tokens[0], NUMBER), ("x", NUMBER)]
    errors = [run(built, service.url, token, number) for token, number in searches]
    assert [(done.returncode, done.stderr) for done in errors] == [
        (1, "400 Invalid phone number (must contain only digits)\n"),
        (4, "403 No credits remaining\n"),
        (5, "429 Rate limit exceeded\n"),
        (3, "401 Invalid or missing token\n"),
    ]


def test_the_docs_include_each_program() -> None:
    included = re.findall(r'^--8<-- "(.+)"$', (ROOT / "docs" / "clients.md").read_text(encoding="utf-8"), re.MULTILINE)
    programs = [path for path in EXAMPLES.glob("*/*") if path.is_file() and path.suffix != ".csproj"]
    assert len(included) == len(PROGRAMS)
    assert {ROOT / path for path in included} == set(programs)


def test_the_docs_say_how_to_run_each_program() -> None:
    listed = re.findall(r"\| `([^`]+ NUMBER)` \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    commands = re.findall(r"^```sh\n(.+)\n```$", page, re.MULTILINE)
    assert commands == [command.replace("NUMBER", "493023125555") for command in listed]
    assert len(commands) == len(PROGRAMS)


def test_shellcheck_and_gofmt_accept_the_examples() -> None:
    with required():
        shellcheck, gofmt = tool("shellcheck"), tool("gofmt")
    build([shellcheck, str(EXAMPLES / "curl" / "callerid.sh")], dict(os.environ))
    done = subprocess.run([gofmt, "-l", EXAMPLES / "go"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
