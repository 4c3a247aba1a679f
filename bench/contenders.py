"""Who is measured, and one measurement of each: started, checked, put under load, stopped."""

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

from bench import processes, rows
from bench.database import ROOT
from bench.figures import Measured
from bench.load import Outcome, Plan
from bench.stack import Embedded, Stack
from tests.service import Service

#: After the start: so long without using the CPU means that all workers are up.
QUIET_S = 0.3
SETTLE_S = 30.0
#: What a log says of SQLite's "database is locked", the second where messages are left out.
LOCKED = ("database is locked", "django.db.utils.OperationalError")
NOTHING: Mapping[str, int] = MappingProxyType({})


class Failed(Exception):
    """A contender that does not start, does not answer or answers wrongly; the message is a sentence."""


@dataclass(frozen=True)
class Contender:
    """A service that answers searches. `module`, `environment`: as tests.service.Service takes them. `needs`: the
    packages of the extra `bench` that it runs on. `pinned`: the bench keeps each worker on a CPU of its own."""

    name: str
    module: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    pinned: bool = False

    def pinned_and_not(self) -> list["Contender"]:
        """Both ways, so that pinning is compared like for like."""
        return [replace(self, name=f"{self.name}, pinned", pinned=True), self]


def ours(name: str = "ours", *, workers: int = 2, threads: int = 4, pinned: bool = True) -> Contender:
    """`pinned`: by the service itself (PIN_WORKERS)."""
    environment = {"WORKERS": str(workers), "THREADS": str(threads), "PIN_WORKERS": str(pinned).lower()}
    return Contender(name, ("callerid_project.serve",), environment)


def ours_pinned_and_not(threads: int) -> list[Contender]:
    return [ours("ours, pinned", threads=threads), ours(threads=threads, pinned=False)]


def fastapi(peer: str) -> tuple[str, ...]:
    """`peer`: a module of bench.peers."""
    return (
        *("uvicorn", f"bench.peers.{peer}:app", "--host", "127.0.0.1", "--port", "{port}"),
        *("--workers", "2", "--loop", "uvloop", "--http", "httptools", "--timeout-keep-alive", "60"),
    )


NAIVE = Contender(
    "naive DRF",
    (
        *("gunicorn", "bench.peers.naive_drf.wsgi", "--bind", "127.0.0.1:{port}"),
        *("--worker-class", "gthread", "--workers", "2", "--threads", "4", "--keep-alive", "60"),
        *("--access-logfile", "-"),
    ),
    needs=("gunicorn", "jwt", "django_ratelimit"),
)
FASTAPI = Contender(
    "FastAPI + asyncpg",
    fastapi("fastapi_peer"),
    needs=("fastapi", "uvicorn", "uvloop", "httptools", "asyncpg", "jwt"),
)


REMOTE_FASTAPI = Contender(
    "FastAPI + asyncpg + aiohttp", fastapi("fastapi_vendors_peer"), needs=(*FASTAPI.needs, "aiohttp")
)


def require_packages(contenders: Iterable[Contender]) -> None:
    """Raises Failed."""
    missing = {name for one in contenders for name in one.needs if importlib.util.find_spec(name) is None}
    if missing:
        raise Failed(
            f"The peers need {', '.join(sorted(missing))}: pip install --require-hashes -r requirements-bench.lock"
        )


def measure(
    contender: Contender,
    stack: Stack | Embedded,
    plan: Plan,
    *,
    answer: Callable[[int], Any] = rows.answer,
    beside: Mapping[str, int] = NOTHING,
) -> Measured:
    """The contender started, under the load of `plan` (whose port is set here), and stopped.

    `answer`: to a search for the number of that index, as rows.answer. `beside`: processes whose CPU is told too, by
    name. Raises Failed.
    """
    with running(contender, stack) as (service, app):
        check(service.port, stack.api_keys[0], answer)
        before = stack.credits()
        outcome, cpu_s = under_load(replace(plan, port=service.port), {"app": app, **stack.pids, **beside})
        resident_mb = processes.largest_resident_mb(app)
        taken = before - stack.credits()
        if taken != outcome.answered:
            raise Failed(f"gave {outcome.answered} answers and took {taken} credits.")
        log = service.log()
    searches = outcome.rate * plan.seconds
    return Measured(
        rate=outcome.rate,
        p50_ms=outcome.p50_ms,
        p99_ms=outcome.p99_ms,
        incomplete=outcome.incomplete,
        errors=outcome.errors,
        locked=sum(log.count(words) for words in LOCKED),
        resident_mb=resident_mb,
        load_us=outcome.own_us,
        **{f"{of}_ms": seconds / searches * 1000 for of, seconds in cpu_s.items()},
    )


@contextmanager
def running(contender: Contender, stack: Stack | Embedded) -> Iterator[tuple[Service, int]]:
    """The contender on a clean stack, all its workers up, and its main process. Raises Failed, with the end of its log,
    also for a Failed of the caller's."""
    stack.clean()
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), {**stack.environment(), **contender.environment}, contender.module)
        try:
            service.start()
            assert service.process is not None
            settle(service.process.pid)
            if contender.pinned and processes.pin_workers(service.process.pid) < 2:
                raise Failed("has no two worker processes to pin.")
            yield service, service.process.pid
        except RuntimeError as error:
            raise Failed(f"{contender.name} does not start: {error}") from error
        except Failed as error:
            ending = "\n".join(service.log().splitlines()[-20:])
            raise Failed(f"{contender.name} {error}\nIts log ends:\n{ending}") from error
        finally:
            service.kill()


def settle(pid: int) -> None:
    """Waits until all workers are up: the first that answers would get every connection."""
    deadline = time.monotonic() + SETTLE_S
    before, now = -1.0, processes.cpu_s(pid)
    while now > before and time.monotonic() < deadline:
        time.sleep(QUIET_S)
        before, now = now, processes.cpu_s(pid)


def check(port: int, api_key: str, expected: Callable[[int], Any]) -> None:
    """All contenders give the same answers. Raises Failed."""
    for index in range(8):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            body = json.dumps({"api_key": api_key, "query": str(rows.number(index))})
            connection.request("POST", "/callerid/search", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"does not answer: {error!r}.") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise Failed(f"answered {response.status}: {text[:500]}")
        answer: dict[str, Any] = json.loads(text)
        left = answer.pop("credits_remaining", None)
        if answer != expected(index) or not isinstance(left, int):
            raise Failed(f"answered {text}, which should have been {expected(index)}.")


def under_load(plan: Plan, pids: dict[str, int]) -> tuple[Outcome, dict[str, float]]:
    """What the load saw, and the seconds of CPU that each of `pids`, with its descendants, used meanwhile. Raises
    Failed."""
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
            used: list[dict[str, float]] = []
            said: dict[str, Any] = {"failed": "was given up: the load ended without a word."}
            for line in load.stdout:
                if line in ("begin\n", "end\n"):
                    used.append({name: processes.cpu_s(pid) for name, pid in pids.items()})
                else:
                    said = json.loads(line)
        finally:
            load.kill()
    if "failed" in said:
        raise Failed(said["failed"])
    begin, end = used
    return Outcome(**said), {name: end[name] - begin[name] for name in pids}
