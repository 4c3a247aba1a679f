"""The services that are measured, and one measurement: start, check, load, stop."""

import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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

#: A service that has used no CPU time for this long has started all its workers.
IDLE_S = 0.3
START_TIMEOUT_S = 30.0
#: How a log reports SQLite's "database is locked"; the second form is that of logs without exception messages.
LOCKED = ("database is locked", "django.db.utils.OperationalError")
NO_PROCESSES: Mapping[str, int] = MappingProxyType({})


class BenchError(Exception):
    """A service does not start or answers wrongly, or something that a benchmark needs is missing."""


@dataclass(frozen=True)
class Target:
    """A service that answers searches. `module`, `environment`: arguments of tests.service.Service. `needs`: packages
    that it needs from the extra `bench`. `pinned`: the benchmark restricts each worker to one CPU."""

    name: str
    module: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    pinned: bool = False

    def pinned_and_not(self) -> list["Target"]:
        """Returns the target with and without pinned workers, so that ours is compared with peers pinned alike."""
        return [replace(self, name=f"{self.name}, pinned", pinned=True), self]


def ours(name: str = "ours", *, workers: int = 2, threads: int = 4, pinned: bool = True) -> Target:
    """Returns this service as a target. `pinned`: the service itself pins its workers (PIN_WORKERS)."""
    environment = {"WORKERS": str(workers), "THREADS": str(threads), "PIN_WORKERS": str(pinned).lower()}
    return Target(name, ("callerid_project.serve",), environment)


def ours_pinned_and_not(threads: int) -> list[Target]:
    return [ours("ours, pinned", threads=threads), ours(threads=threads, pinned=False)]


def fastapi(peer: str) -> tuple[str, ...]:
    """Returns the uvicorn command for `peer`, a module of bench.peers."""
    return (
        *("uvicorn", f"bench.peers.{peer}:app", "--host", "127.0.0.1", "--port", "{port}"),
        *("--workers", "2", "--loop", "uvloop", "--http", "httptools", "--timeout-keep-alive", "60"),
    )


NAIVE = Target(
    "naive DRF",
    (
        *("gunicorn", "bench.peers.naive_drf.wsgi", "--bind", "127.0.0.1:{port}"),
        *("--worker-class", "gthread", "--workers", "2", "--threads", "4", "--keep-alive", "60"),
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
            f"The peers need {', '.join(sorted(missing))}: pip install --require-hashes -r requirements-bench.lock"
        )


def measure(
    target: Target,
    stack: Stack | EmbeddedStack,
    plan: LoadPlan,
    *,
    answer: Callable[[int], Any] = dataset.answer,
    other_processes: Mapping[str, int] = NO_PROCESSES,
) -> Measurement:
    """Starts the target, applies the load of `plan` (and sets its port), and stops the target.

    `answer`: returns the expected answer for the number with that index. `other_processes`: ids of further processes
    whose CPU time is measured, by name. Raises BenchError, also when the credits charged are not the answers given.
    """
    with running(target, stack) as (service, app):
        check(service.port, stack.api_keys[0], answer)
        before = stack.credits()
        result, cpu_s = under_load(replace(plan, port=service.port), {"app": app, **stack.pids, **other_processes})
        resident_mb = processes.largest_resident_mb(app)
        charged = before - stack.credits()
        if charged != result.answered:
            raise BenchError(f"gave {result.answered} answers and charged {charged} credits.")
        log = service.log()
    searches = result.rate * plan.seconds
    return Measurement(
        rate=result.rate,
        p50_ms=result.p50_ms,
        p99_ms=result.p99_ms,
        incomplete=result.incomplete,
        errors=result.errors,
        locked=sum(log.count(words) for words in LOCKED),
        resident_mb=resident_mb,
        load_us=result.load_us,
        **{f"{name}_ms": seconds / searches * 1000 for name, seconds in cpu_s.items()},
    )


@contextmanager
def running(target: Target, stack: Stack | EmbeddedStack) -> Iterator[tuple[Service, int]]:
    """Runs the target on a clean stack. Yields it and its main process id once all workers have started.

    Adds the end of the log to a BenchError, including one that the caller's block raises.
    """
    stack.clean()
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), {**stack.environment(), **target.environment}, target.module)
        try:
            service.start()
            assert service.process is not None
            wait_until_idle(service.process.pid)
            if target.pinned and processes.pin_workers(service.process.pid) < 2:
                raise BenchError("does not have two worker processes to pin.")
            yield service, service.process.pid
        except RuntimeError as error:
            raise BenchError(f"{target.name}: does not start: {error}") from error
        except BenchError as error:
            log_end = "\n".join(service.log().splitlines()[-20:])
            raise BenchError(f"{target.name}: {error}\nEnd of its log:\n{log_end}") from error
        finally:
            service.kill()


def wait_until_idle(pid: int) -> None:
    """Waits until all workers have started: otherwise the first one would accept every connection."""
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


def under_load(plan: LoadPlan, pids: dict[str, int]) -> tuple[LoadResult, dict[str, float]]:
    """Runs bench.load. Returns its result, and the CPU seconds that each of `pids` and its descendants used while it
    counted. Raises BenchError."""
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
                    cpu_s.append({name: processes.cpu_s(pid) for name, pid in pids.items()})
                else:
                    output = json.loads(line)
        finally:
            load.kill()
    if "failed" in output:
        raise BenchError(output["failed"])
    begin, end = cpu_s
    return LoadResult(**output), {name: end[name] - begin[name] for name in pids}
