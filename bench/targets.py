"""The services that are measured, and one measurement: start, check, load, stop."""

import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench import dataset, processes
from bench.database import ROOT
from bench.load import LoadPlan, LoadResult
from bench.report import Measurement
from bench.stack import EmbeddedStack, Stack
from tests.service import Service

#: A service that has used no CPU time for this long has started.
IDLE_S = 0.3
START_TIMEOUT_S = 30.0
#: How a log reports SQLite's "database is locked"; the second form is that of logs without exception messages.
LOCKED = ("database is locked", "django.db.utils.OperationalError")
NO_PROCESSES: Mapping[str, int] = MappingProxyType({})


class BenchError(Exception):
    """A service does not start or answers wrongly, or something that a benchmark needs is missing."""


@dataclass(frozen=True)
class Target:
    """A service that answers searches: `instances` processes, each on its own port. `module`, `environment`: arguments
    of tests.service.Service. `needs`: packages that it needs from the extra `bench`."""

    name: str
    module: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    instances: int = 2


def ours(name: str = "ours", *, instances: int = 2) -> Target:
    """Returns this service as a target."""
    return Target(name, ("callerid_project.serve",), instances=instances)


def fastapi(peer: str) -> tuple[str, ...]:
    """Returns the uvicorn command for `peer`, a module of bench.peers."""
    return (
        *("uvicorn", f"bench.peers.{peer}:app", "--host", "127.0.0.1", "--port", "{port}"),
        *("--loop", "uvloop", "--http", "httptools", "--timeout-keep-alive", "60"),
    )


NAIVE = Target(
    "naive DRF",
    (
        *("gunicorn", "bench.peers.naive_drf.wsgi", "--bind", "127.0.0.1:{port}"),
        *("--worker-class", "gthread", "--workers", "1", "--threads", "4", "--keep-alive", "60"),
        *("--access-logfile", "-"),
    ),
    needs=("gunicorn", "jwt", "django_ratelimit"),
)
FASTAPI = Target(
    "FastAPI + asyncpg",
    fastapi("fastapi_peer"),
    needs=("fastapi", "uvicorn", "uvloop", "httptools", "asyncpg", "jwt"),
)


REMOTE_FASTAPI = Target(
    "FastAPI + asyncpg + aiohttp", fastapi("fastapi_vendors_peer"), needs=(*FASTAPI.needs, "aiohttp")
)


def require_packages(targets: Iterable[Target]) -> None:
    """Raises BenchError when a package that a target needs is not installed."""
    missing = {name for target in targets for name in target.needs if importlib.util.find_spec(name) is None}
    if missing:
        raise BenchError(
            f"The peers need {', '.join(sorted(missing))}: pip install --require-hashes -r requirements/bench.lock"
        )


def measure(
    target: Target,
    stack: Stack | EmbeddedStack,
    plan: LoadPlan,
    *,
    answer: Callable[[int], Any] = dataset.answer,
    other_processes: Mapping[str, int] = NO_PROCESSES,
) -> Measurement:
    """Starts the target, applies the load of `plan` (and sets its ports), and stops the target.

    `answer`: returns the expected answer for the number with that index. `other_processes`: ids of further processes
    whose CPU time is measured, by name. Raises BenchError, also when the credits charged are not the answers given.
    """
    with running(target, stack) as services:
        for service in services:
            check(service.port, stack.api_keys[0], answer)
        before = stack.credits()
        app = pids(services)
        others = {name: [pid] for name, pid in {**stack.pids, **other_processes}.items()}
        ports = [service.port for service in services]
        result, cpu_s = under_load(replace(plan, ports=ports), {"app": app, **others})
        if not result.rate:
            raise BenchError("answered nothing.")
        resident_mb = max(map(processes.largest_resident_mb, app))
        charged = before - stack.credits()
        if charged != result.answered:
            raise BenchError(f"gave {result.answered} answers and charged {charged} credits.")
        log = "".join(service.log() for service in services)
    searches = result.rate * plan.seconds
    return Measurement(
        rate=result.rate,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
        incomplete=result.incomplete,
        errors=result.errors + result.refused,
        locked=sum(log.count(words) for words in LOCKED),
        resident_mb=resident_mb,
        load_us=result.load_us,
        **{f"{name}_ms": seconds / searches * 1000 for name, seconds in cpu_s.items()},
    )


@contextmanager
def running(target: Target, stack: Stack | EmbeddedStack) -> Iterator[list[Service]]:
    """Runs the target's instances on a clean stack. Yields them once they have started.

    Adds the end of the logs to a BenchError, including one that the caller's block raises.
    """
    stack.clean()
    services: list[Service] = []
    with ExitStack() as contexts:
        try:
            for _ in range(target.instances):
                directory = Path(contexts.enter_context(tempfile.TemporaryDirectory()))
                service = Service(directory, {**stack.environment(), **target.environment}, target.module)
                services.append(service)
                contexts.callback(service.kill)
                service.start()
            for pid in pids(services):
                wait_until_idle(pid)
            yield services
        except RuntimeError as error:
            raise BenchError(f"{target.name}: does not start: {error}") from error
        except BenchError as error:
            log_ends = "\n".join(line[:300] for service in services for line in service.log().splitlines()[-20:])
            raise BenchError(f"{target.name}: {error}\nEnd of its log:\n{log_ends}") from error


def pids(services: Iterable[Service]) -> list[int]:
    """Returns the main process ids of services that have been started."""
    return [service.process.pid for service in services if service.process is not None]


def wait_until_idle(pid: int) -> None:
    """Waits until the service has started completely, so that the measurement does not include it."""
    deadline = time.monotonic() + START_TIMEOUT_S
    before, now = -1.0, processes.cpu_s(pid)
    while now > before and time.monotonic() < deadline:
        time.sleep(IDLE_S)
        before, now = now, processes.cpu_s(pid)


def check(port: int, api_key: str, expected: Callable[[int], Any]) -> None:
    """Checks that eight searches get the expected answers. Raises BenchError."""
    for index in range(8):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            body = json.dumps({"api_key": api_key, "query": str(dataset.number(index))})
            connection.request("POST", "/callerid/search", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"does not answer: {error!r}.") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise BenchError(f"answered {response.status}: {text[:500]}")
        answer: dict[str, Any] = json.loads(text)
        balance = answer.pop("credits_remaining", None)
        if answer != expected(index) or not isinstance(balance, int):
            raise BenchError(f"answered {text}; expected {expected(index)}.")


def under_load(plan: LoadPlan, groups: Mapping[str, Sequence[int]]) -> tuple[LoadResult, dict[str, float]]:
    """Runs bench.load. Returns its result, and the CPU seconds that each group of processes and their descendants used
    while it counted. Raises BenchError."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as load:
        try:
            assert load.stdin is not None
            assert load.stdout is not None
            load.stdin.write(json.dumps(asdict(plan)))
            load.stdin.close()
            cpu_s: list[dict[str, float]] = []
            output: dict[str, Any] = {"failed": "the load generator exited without a result."}
            for line in load.stdout:
                if line in ("begin\n", "end\n"):
                    cpu_s.append({name: sum(map(processes.cpu_s, pids)) for name, pids in groups.items()})
                else:
                    output = json.loads(line)
        finally:
            load.kill()
    if "failed" in output:
        raise BenchError(output["failed"])
    begin, end = cpu_s
    return LoadResult(**output), {name: end[name] - begin[name] for name in groups}
