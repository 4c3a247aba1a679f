"""Measures the duration of commands and the server's start: `python -m bench.startup`.

Prints wall-clock medians of several rounds on the embedded profile, and their ratios to Django's own command line. The
server's start lasts until its first answer.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.database import KEYS, ROOT
from tests.service import Service

MANAGE = (sys.executable, "manage.py")
COMMANDS = {
    "django-admin help (baseline)": (sys.executable, "-m", "django", "help"),
    "manage.py help": (*MANAGE, "help"),
    "manage.py list_tokens": (*MANAGE, "list_tokens"),
    "manage.py check": (*MANAGE, "check"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), dict(KEYS))
        service.manage("migrate", "--verbosity=0")

        def serve() -> None:
            try:
                service.start()
            finally:
                service.kill()

        runs: dict[str, Callable[[], object]] = {
            name: lambda words=words: subprocess.run(  # type: ignore[misc]
                words, cwd=ROOT, env=service.env, check=True, stdout=subprocess.DEVNULL
            )
            for name, words in COMMANDS.items()
        }
        runs["server start until the first answer"] = serve
        durations: dict[str, list[float]] = {name: [] for name in runs}
        for run in runs.values():  # the first import compiles modules
            run()
        for _ in range(rounds):
            for name, run in runs.items():
                started = time.monotonic()
                run()
                durations[name].append(time.monotonic() - started)
    print(
        f"{rounds} rounds, {os.cpu_count()} cores. Medians (minimum–maximum).\n\n| | s | ratio |\n| --- | --- | --- |"
    )
    baseline = next(iter(durations.values()))
    for name, seconds in durations.items():
        ratio = statistics.median(one / base for one, base in zip(seconds, baseline, strict=True))
        spread = f"{statistics.median(seconds):.2f} ({min(seconds):.2f}–{max(seconds):.2f})"
        print(f"| {name} | {spread} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
