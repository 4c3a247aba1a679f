"""How many instructions the app's process executes for a search: `python -m bench.instructions`.

Counted by valgrind's cachegrind, so that what else the machine does changes nothing: one thread calls the WSGI
application itself, FEW and MANY times, and the difference counts. On PostgreSQL and Redis, as bench.search. Needs
valgrind.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import command, rows
from bench.contenders import Failed
from bench.database import ROOT
from bench.stack import standing

FEW, MANY = 30, 130


def counted() -> str:
    if shutil.which("valgrind") is None:
        raise Failed("There is no valgrind on PATH.")
    with standing() as stack, tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, **stack.environment(), "CALLERID_DATA_DIR": directory, "PYTHONHASHSEED": "0"}
        few, many = (_instructions(environment, stack.api_keys[0], times, Path(directory)) for times in (FEW, MANY))
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{(many - few) / (MANY - FEW) / 1e6:.2f} million instructions a search (Python {version})"


def _instructions(environment: dict[str, str], api_key: str, times: int, directory: Path) -> int:
    """Of a process that searches so many times."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={directory / 'out'}"]
    done = subprocess.run(
        [*tool, sys.executable, "-m", "bench.instructions", "search", str(times)],
        cwd=ROOT, env=environment, input=api_key, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.search(r"I +refs: +([0-9,]+)", done.stderr)
    if found is None:
        raise Failed("cachegrind did not count.")
    return int(found[1].replace(",", ""))


def search(api_key: str, times: int) -> None:
    """As granian's worker would call it. Raises AssertionError for another answer than 200."""
    from callerid_project.wsgi import application

    def begins(status: str, headers: object, error: object = None) -> None:
        assert status.startswith("200 "), status

    for index in range(times):
        body = json.dumps({"api_key": api_key, "query": str(rows.number(index))}).encode()
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
            begins,
        )
        b"".join(response)
        response.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    if sys.argv[1:2] == ["search"]:
        search(sys.stdin.read(), int(sys.argv[2]))
    else:
        print(command.told(counted))
