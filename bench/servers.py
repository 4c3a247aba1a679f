"""Which WSGI server: the same searches through granian and gunicorn's threads, in turn, on the embedded profile.

    ./run manage migrate && .venv/bin/python -m pip install gunicorn && .venv/bin/python bench/servers.py

Gunicorn is no dependency of the service. Figures are searches a second, the 99th percentile in milliseconds and the
resident memory of the worker, medians of several rounds. Keep the ratio: both run on one machine, in turn.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PORT = 8970
NUMBER = "493023125042"


def command(server: str, threads: int) -> list[str]:
    if server == "granian":
        return [sys.executable, "-m", "callerid_project.serve"]
    options = f"--worker-class gthread --threads {threads} --bind 127.0.0.1:{PORT} --keep-alive 60 --log-level error"
    return [sys.executable, "-m", "gunicorn", *options.split(), "callerid_project.wsgi:application"]


def client(key: str, seconds: float, results: multiprocessing.Queue) -> None:
    """One keep-alive connection that searches until the time is over."""
    body = json.dumps({"api_key": key, "query": NUMBER})
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    took, end = [], time.monotonic() + seconds
    while (started := time.monotonic()) < end:
        connection.request("POST", "/callerid/search", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == http.HTTPStatus.OK, response.status
        took.append(time.monotonic() - started)
    results.put(took)


def resident_mb(pid: int) -> float:
    """Of the process and its children, the largest: the worker."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return max(int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in pids) * os.sysconf("SC_PAGESIZE") / 2**20


def measure(server: str, environment: dict[str, str], key: str, options: argparse.Namespace) -> tuple[float, ...]:
    process = subprocess.Popen(
        command(server, options.threads), cwd=ROOT, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            try:
                http.client.HTTPConnection("127.0.0.1", PORT).request("GET", "/livez")
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        results: multiprocessing.Queue = multiprocessing.Queue()
        clients = [
            multiprocessing.Process(target=client, args=(key, options.seconds, results))
            for _ in range(options.connections)
        ]
        for one in clients:
            one.start()
        took = sorted(seconds for _ in clients for seconds in results.get())
        memory = resident_mb(process.pid)
        for one in clients:
            one.join()
        return len(took) / options.seconds, took[int(len(took) * 0.99)] * 1000, memory
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ, "CALLERID_DATA_DIR": directory, "RATE_LIMIT": "100000000/m", "LOG_LEVEL": "WARNING",
            "PORT": str(PORT), "THREADS": str(options.threads),
        }  # fmt: skip

        def manage(*arguments: str) -> str:
            return subprocess.run(
                [sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True, capture_output=True,
                text=True,
            ).stdout  # fmt: skip

        manage("migrate")
        manage("load_numbering_plan")
        key = manage("create_token", "bench", "--credits", "1000000", "--quiet").strip()
        rows: dict[str, list[tuple[float, ...]]] = {"granian": [], "gunicorn": []}
        for _ in range(options.rounds):
            for server, figures in rows.items():
                figures.append(measure(server, environment, key, options))
    medians = {
        server: [statistics.median(column) for column in zip(*figures, strict=True)] for server, figures in rows.items()
    }
    print("| | searches/s | p99 ms | worker MB |\n|---|---|---|---|")
    for server, (rate, p99, memory) in medians.items():
        print(f"| {server} | {rate:.0f} | {p99:.0f} | {memory:.0f} |")
    ratios = [a / b for a, b in zip(medians["granian"], medians["gunicorn"], strict=True)]
    print("| granian / gunicorn | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")


if __name__ == "__main__":
    main()
