"""Counts the instructions that the application executes for a search: `python -m bench.instructions [--remote]`.

With --remote both sources are local mock vendors. Valgrind's cachegrind counts, so other load on the machine does not
change the result. One thread calls the WSGI application FEW times and, in another process, MANY times; the difference
excludes the start. Uses PostgreSQL and Redis, as bench.search does. Needs valgrind.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from bench import command, dataset, mock_vendors
from bench.database import ROOT
from bench.stack import production_stack
from bench.targets import BenchError

FEW, MANY = 30, 130


def count_instructions(*, remote: bool) -> str:
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is not on PATH.")
    mocks = mock_vendors.run(0) if remote else nullcontext()
    with production_stack() as stack, mocks as vendors, tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, **stack.environment(), "CALLERID_DATA_DIR": directory, "PYTHONHASHSEED": "0"}
        environment["PROMETHEUS_MULTIPROC_DIR"] = directory  # as callerid_project.serve does
        if vendors:  # valgrind takes many times as long
            environment |= {**mock_vendors.slot_settings(vendors.urls), "SEARCH_DEADLINE_S": "60"}
        few, many = (_instructions(environment, stack.api_keys[0], times, Path(directory)) for times in (FEW, MANY))
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{(many - few) / (MANY - FEW) / 1e6:.2f} million instructions per search (Python {version})"


def _instructions(environment: dict[str, str], api_key: str, times: int, directory: Path) -> int:
    """Returns the instructions of a process that searches `times` times. Raises BenchError."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={directory / 'out'}"]
    process = subprocess.run(
        [*tool, sys.executable, "-m", "bench.instructions", "search", str(times)],
        cwd=ROOT, env=environment, input=api_key, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"I +refs: +([0-9,]+)", process.stderr)
    if found is None:
        raise BenchError("cachegrind printed no count.")
    return int(found[1].replace(",", ""))


def search(api_key: str, times: int) -> None:
    """Calls the WSGI application as a granian worker does. Raises AssertionError when an answer is not 200."""
    from callerid_project.wsgi import application

    def start_response(status: str, headers: object, error: object = None) -> None:
        assert status.startswith("200 "), status

    for index in range(times):
        # Each process searches other numbers: no vendor's answer is cached.
        body = json.dumps({"api_key": api_key, "query": str(dataset.number(times + index))}).encode()
        response = application(
            {
                "REQUEST_METHOD": "POST",
                "SCRIPT_NAME": "",
                "PATH_INFO": "/callerid/search",
                "QUERY_STRING": "",
                "SERVER_NAME": "127.0.0.1",
                "SERVER_PORT": "8000",
                "SERVER_PROTOCOL": "HTTP/1.1",
                "REMOTE_ADDR": "127.0.0.1",
                "HTTP_HOST": "127.0.0.1:8000",
                "CONTENT_TYPE": "application/json",
                "CONTENT_LENGTH": str(len(body)),
                "wsgi.input": io.BytesIO(body),
                "wsgi.errors": sys.stderr,
                "wsgi.url_scheme": "http",
            },
            start_response,
        )
        b"".join(response)
        if hasattr(response, "close"):
            response.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["search"]:
        search(sys.stdin.read(), int(sys.argv[2]))
    else:
        print(command.run_or_exit(partial(count_instructions, remote=sys.argv[1:] == ["--remote"])))
