"""Measures what the text of strangers costs: `python -m bench.strangers`, on the embedded profile, which it starts.

First the CPU time of one request at the limits of its size, for texts that are expensive to parse, without a login.
Then the duration of searches (100 a second, over one connection each) while five clients repeat the most expensive one:
where one process serves searches and pages, and where each has a process of its own.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.database import ROOT

HEADERS, BODY = 31 * 1024, 16 * 1024
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
COOKIE = "Cookie: csrftoken=" + "x" * 32
NUMBER = "493023125555"
SEARCHES_PER_S, ATTACKERS = 100, 5


def request(path: str, body: bytes = b"", content_type: str = "", *lines: str, method: str = "") -> bytes:
    head = [f"{method or ('POST' if body else 'GET')} {path} HTTP/1.1", "Host: 127.0.0.1", *lines]
    head += [f"Content-Type: {content_type}"] * bool(content_type) + [f"Content-Length: {len(body)}"] * bool(body)
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def repeated(text: str, size: int) -> str:
    return text * (size // len(text))


def texts(admin: str = "/admin/login/") -> dict[str, bytes]:
    """Name → request."""
    part = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n'
    search, as_json, file = "/callerid/search", "application/json", "/static/callerid/home.js"
    found = {
        "nothing: /livez": request("/livez"),
        "nothing: login page": request(admin),
        "login: form of %": request(admin, repeated("%", BODY).encode(), FORM, COOKIE),
        "login: form of %25": request(admin, repeated("%25", BODY).encode(), FORM, COOKIE),
        "login: 999 fields": request(admin, repeated("a=b&", 3_996).encode(), FORM, COOKIE),
        "login: multipart": request(admin, repeated(part, BODY).encode() + b"--b--", MULTIPART, COOKIE),
        "login: one long field": request(admin, b"username=" + b"\xc3\xa9" * (BODY // 2 - 9), FORM, COOKIE),
        "query of %": request("/docs?a=" + repeated("%", HEADERS)),
        "query of fields": request("/docs?" + repeated("a&", HEADERS)),
        "path": request("/" + repeated("a/", HEADERS)),
        "path of %": request("/" + repeated("%25", HEADERS)),
        "cookies": request(admin, b"", "", "Cookie: " + repeated("a=b;", HEADERS)),
        "cookie with quotes": request(admin, b"", "", 'Cookie: a="' + repeated("\\1", HEADERS)),
        "many headers": request("/livez", b"", "", *[f"X-{n}: {'a' * 140}" for n in range(198)]),
        "too many headers": request("/livez", b"", "", *["a:"] * (HEADERS // 4)),
        "X-Forwarded-For": request("/livez", b"", "", "X-Forwarded-For: " + repeated("a,", HEADERS)),
        "Accept": request("/nowhere", b"", "", "Accept: " + repeated("a/b,", HEADERS)),
        "Accept-Encoding": request(file, b"", "", "Accept-Encoding: " + repeated("gzip,", HEADERS)),
        "Range": request(file, b"", "", "Range: bytes=" + repeated("0-1,", HEADERS)),
        "If-None-Match": request(file, b"", "", "If-None-Match: " + repeated('"a",', HEADERS)),
        "traceparent": request("/livez", b"", "", "traceparent: " + repeated("00-", HEADERS)),
        "X-Request-ID": request("/livez", b"", "", "X-Request-ID: " + repeated("1.", HEADERS)),
        "search: [": request(search, repeated("[", BODY).encode(), as_json),
        "search: members": request(search, ("{" + repeated('"a":1,', BODY - 9) + '"b":1}').encode(), as_json),
        "search: numbers": request(search, ("[" + repeated("1e9,", BODY - 9) + "1]").encode(), as_json),
        "search: long number": request(search, ('{"query":' + repeated("1", 4_000) + "}").encode(), as_json),
        "search: token of dots": request(search, ('{"api_key":"' + repeated(".", 2_000) + '"}').encode(), as_json),
        "search: token": request(search, json.dumps({"api_key": f"{'e' * 900}.{'e' * 900}.e"}).encode(), as_json),
        "customer's link": request("/customer/" + repeated("a:", HEADERS)),
    }  # fmt: skip
    pieces = b"".join(b"1\r\n \r\n" for _ in range(4_000)) + b"0\r\n\r\n"
    found["search: 4,000 chunks"] = request(search, b"", as_json, "Transfer-Encoding: chunked", method="POST") + pieces
    return found


class Process:
    """An instance of the service."""

    def __init__(self, directory: str, serve: str, port: int) -> None:
        self.port = port
        limits = {"RATE_LIMIT": "1000000/m", "AUTH_FAILURE_RATE": "1000000/m"}
        self.env = {**os.environ, "CALLERID_DATA_DIR": directory, "PORT": str(port), "SERVE": serve, **limits}

    @contextmanager
    def running(self) -> Iterator["Process"]:
        command = [sys.executable, "-m", "callerid_project.serve"]
        with subprocess.Popen(command, cwd=ROOT, env=self.env, stderr=subprocess.DEVNULL) as self.process:
            try:
                asyncio.run(self._wait())
                yield self
            finally:
                self.process.kill()

    async def _wait(self) -> None:
        while True:
            try:
                await send(self.port, request("/livez"))
                return
            except OSError:
                await asyncio.sleep(0.1)

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def send(port: int, data: bytes) -> int:
    """The status of the response, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        line = await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return int(line.split()[1])
    finally:
        writer.close()


def cost_ms(process: Process, data: bytes, requests: int) -> tuple[int, float]:
    async def repeat() -> int:
        return [await send(process.port, data) for _ in range(requests)][-1]

    asyncio.run(repeat())
    before = process.cpu_s()
    status = asyncio.run(repeat())
    return status, (process.cpu_s() - before) / requests * 1000


async def searches_beside(search: Process, pages: Process, body: bytes, attack: bytes, seconds: float) -> list[float]:
    """Durations of searches in ms, sent at their times whether or not earlier ones were answered."""

    async def one(delay_s: float) -> float:
        await asyncio.sleep(delay_s)
        began = time.perf_counter()
        status = await send(search.port, request("/callerid/search", body, "application/json"))
        return (time.perf_counter() - began) * 1000 if status == 200 else float("inf")

    async def repeat() -> None:
        while True:
            await send(pages.port, attack)

    attackers = [asyncio.create_task(repeat()) for _ in range(ATTACKERS)] if attack else []
    durations = await asyncio.gather(*(one(n / SEARCHES_PER_S) for n in range(int(seconds * SEARCHES_PER_S))))
    for attacker in attackers:
        attacker.cancel()
    return sorted(durations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--port", type=int, default=8901)
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        both, search, console = (
            Process(directory, serve, options.port + n) for n, serve in enumerate(("all", "search", "console"))
        )
        both.manage("quickstart")
        key = both.manage("create_token", "x", "--credits", "100000", "--quiet")
        body = json.dumps({"api_key": key, "query": NUMBER}).encode()
        costs = {}
        with both.running():
            for name, data in texts().items():
                costs[name] = cost_ms(both, data, options.requests)
        print("| request | KiB | status | CPU, ms |\n|---|---|---|---|")
        for name, (status, ms) in sorted(costs.items(), key=lambda each: -each[1][1]):
            print(f"| {name} | {len(texts()[name]) / 1024:.0f} | {status} | {ms:.1f} |")
        worst = texts()["login: form of %"]
        print("\n| processes | attack | median, ms | p99, ms | refused |\n|---|---|---|---|---|")
        for name, instances in (("one", [both, both]), ("one each", [search, console])):
            for attack in (b"", worst):
                with ExitStack() as running:
                    for process in dict.fromkeys(instances):
                        running.enter_context(process.running())
                    run = searches_beside(instances[0], instances[1], body, attack, options.seconds)
                    found = asyncio.run(run)
                answered = [ms for ms in found if ms != float("inf")]
                p99 = answered[int(len(answered) * 0.99) - 1]
                refused = 100 - 100 * len(answered) / len(found)
                title = "form of %" if attack else "none"
                print(f"| {name} | {title} | {statistics.median(answered):.0f} | {p99:.0f} | {refused:.0f} % |")


if __name__ == "__main__":
    main()
