"""Counts the instructions that the application executes for a search: `python -m bench.instructions [--peer]`.

Valgrind's cachegrind counts, so other load on the machine does not change the result. One task calls the ASGI
application FEW times and, in another process, MANY times; the difference excludes the start. What runs at intervals
(samplers, writers of statistics and of the request log) does not run, because it would depend on the time that Valgrind
takes. The HTTP server is not included. Uses PostgreSQL and Redis, as bench.search does. Needs valgrind.
"""

import argparse
import asyncio
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from bench import command, dataset, mock_vendors
from bench.database import ROOT
from bench.stack import production_stack
from bench.targets import FASTAPI, REMOTE_FASTAPI, BenchError, require_packages

FEW, MANY = 30, 130


OURS = "callerid_project.asgi:application"


def count_instructions(*, remote: bool, peer: bool) -> str:
    application = OURS
    if peer:
        target = REMOTE_FASTAPI if remote else FASTAPI
        require_packages([target])
        application = target.module[1]
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not on PATH.")
    mocks = mock_vendors.run(0) if remote else nullcontext()
    with production_stack() as stack, mocks as vendors, tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, **stack.environment(), "CALLERID_DATA_DIR": directory, "PYTHONHASHSEED": "0"}
        # Valgrind takes many times as long.
        environment |= {"SEARCH_DEADLINE_S": "60", "DB_STATEMENT_TIMEOUT_MS": "60000", "REDIS_TIMEOUT_S": "10"}
        if vendors:
            environment |= {**mock_vendors.slot_settings(vendors.urls), "MOCK_CALLS": "16"}
        count = partial(_instructions, application, environment, stack.api_keys[0], Path(directory))
        few, many = count(FEW), count(MANY)
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{(many - few) / (MANY - FEW) / 1e6:.2f} million instructions per search (Python {version})"


def _instructions(application: str, environment: dict[str, str], api_key: str, directory: Path, times: int) -> int:
    """Returns the instructions of a process that searches `times` times. Raises BenchError."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={directory / 'out'}"]
    process = subprocess.run(
        [*tool, sys.executable, "-m", "bench.instructions", "--search", str(times), "--application", application],
        cwd=ROOT, env=environment, input=api_key, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"I +refs: +([0-9,]+)", process.stderr)
    if found is None:
        raise BenchError("cachegrind printed no count.")
    return int(found[1].replace(",", ""))


def search(name: str, api_key: str, times: int) -> None:
    """Calls the ASGI application `name` (module:attribute) as uvicorn does. Raises AssertionError when an answer is not
    200."""
    import uvloop

    module, _, attribute = name.partition(":")
    application = getattr(importlib.import_module(module), attribute)
    if name == OURS:
        _stop_what_runs_at_intervals()
    uvloop.run(_search(application, api_key, times))


def _stop_what_runs_at_intervals() -> None:
    from core import background, metrics

    metrics.SAMPLE_INTERVAL_S = threading.TIMEOUT_MAX
    setattr(background.BackgroundWriter, "start_thread", lambda _: None)  # noqa: B010


async def _search(application: Any, api_key: str, times: int) -> None:
    started, never = asyncio.Event(), asyncio.Event()
    messages = iter([{"type": "lifespan.startup"}])

    async def next_event() -> Any:
        if event := next(messages, None):
            return event
        return await never.wait()

    async def report(message: Any) -> None:
        assert message["type"] == "lifespan.startup.complete", message
        started.set()

    lifespan = asyncio.create_task(application({"type": "lifespan"}, next_event, report))
    await started.wait()
    for index in range(times):
        # Each process searches other numbers: no vendor's answer is cached.
        await _post(application, {"api_key": api_key, "query": str(dataset.number(times + index))})
    lifespan.cancel()


async def _post(application: Any, members: dict[str, str]) -> None:
    body = json.dumps(members).encode()

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200, message

    headers = {"host": "127.0.0.1:8000", "content-type": "application/json", "content-length": str(len(body))}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/callerid/search",
        "raw_path": b"/callerid/search",
        "root_path": "",
        "query_string": b"",
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await application(scope, receive, send)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remote", action="store_true", help="both sources are local mock vendors")
    parser.add_argument("--peer", action="store_true", help="count the FastAPI service of bench/peers instead")
    parser.add_argument("--search", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--application", default=OURS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        search(options.application, sys.stdin.read(), options.search)
    else:
        print(command.run_or_exit(partial(count_instructions, remote=options.remote, peer=options.peer)))
