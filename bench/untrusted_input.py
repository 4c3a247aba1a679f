"""Measures what untrusted input costs: `python -m bench.untrusted_input`, with PostgreSQL and Redis.

First the CPU time of one request at the limits of its size, for texts that are expensive to parse, without a login.
Then searches at --rate while five clients repeat the form that cost most in earlier versions: where one process serves
searches and pages, and where each has a process of its own.
"""

import argparse
import asyncio
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from bench import command, dataset, processes, targets
from bench.load import LoadPlan, LoadResult
from bench.stack import Stack, production_stack

HEADERS, BODY = 31 * 1024, 16 * 1024
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=b"
COOKIE = "Cookie: csrftoken=" + "x" * 32
WORST = "login: form of %"
ATTACKERS = 5
#: Refused tokens are not refused for their number.
ENVIRONMENT = {"AUTH_FAILURE_RATE": "100000000/m"}


def request(path: str, body: bytes = b"", content_type: str = "", *lines: str, method: str = "") -> bytes:
    head = [f"{method or ('POST' if body else 'GET')} {path} HTTP/1.1", "Host: 127.0.0.1", *lines]
    head += [f"Content-Type: {content_type}"] * bool(content_type) + [f"Content-Length: {len(body)}"] * bool(body)
    return "\r\n".join([*head, "", ""]).encode("latin-1") + body


def repeated(text: str, size: int) -> str:
    return text * (size // len(text))


def texts(admin: str = "/admin/login/") -> dict[str, bytes]:
    """Requests by name."""
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


async def send(port: int, data: bytes) -> int:
    """Returns the status of the response, on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        line = await reader.readuntil(b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return int(line.split()[1])
    finally:
        writer.close()


async def _repeat(port: int, data: bytes, times: int) -> int:
    return [await send(port, data) for _ in range(times)][-1]


def cost(port: int, pid: int, data: bytes, times: int) -> tuple[int, float]:
    """Returns the status of a request, and its CPU time in ms, as the mean of `times`."""
    asyncio.run(_repeat(port, data, times))
    before = processes.cpu_s(pid)
    status = asyncio.run(_repeat(port, data, times))
    return status, (processes.cpu_s(pid) - before) / times * 1000


def _attack(port: int, data: bytes) -> None:
    async def attack() -> None:
        await asyncio.gather(*(_repeat(port, data, 10**9) for _ in range(ATTACKERS)))

    asyncio.run(attack())


@contextmanager
def attackers(port: int, data: bytes) -> Iterator[None]:
    """Repeats the request from a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=_attack, args=(port, data), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def searches(stack: Stack, options: argparse.Namespace, *serve: str, attack: bool) -> LoadResult:
    """Returns the result of searches at the first of two instances, while the second one is attacked."""
    instances = [
        replace(
            targets.ours(one, instances=1),
            environment={**ENVIRONMENT, "SERVE": one, "SEARCH_URL": "http://127.0.0.1:9"},
        )
        for one in serve
    ]
    with ExitStack() as running:
        ports = [service.port for each in instances for service in running.enter_context(targets.running(each, stack))]
        plan = LoadPlan(
            ports[:1], stack.api_keys, 32, options.seconds, 2.0, rate=options.rate, distinct=dataset.NUMBERS,
            allow_errors=True,
        )  # fmt: skip
        with attackers(ports[-1], texts()[WORST]) if attack else nullcontext():
            return targets.under_load(plan, {})[0]


def measure(options: argparse.Namespace) -> str:
    with production_stack() as stack:
        target = replace(targets.ours(instances=1), environment=ENVIRONMENT)
        with targets.running(target, stack) as services:
            (pid,) = targets.pids(services)
            costs = {name: cost(services[0].port, pid, data, options.times) for name, data in texts().items()}
        lines = ["| request | KiB | status | CPU, ms |", "|---|---|---|---|"]
        for name, (status, ms) in sorted(costs.items(), key=lambda each: -each[1][1]):
            lines.append(f"| {name} | {len(texts()[name]) / 1024:.0f} | {status} | {ms:.1f} |")
        lines += ["", "| processes | attack | median, ms | p99, ms | answered |", "|---|---|---|---|---|"]
        for title, serve in (("one", ("all",)), ("one each", ("search", "console"))):
            for attack in (False, True):
                found = searches(stack, options, *serve, attack=attack)
                share = 100 * found.rate / options.rate
                lines.append(
                    f"| {title} | {WORST if attack else 'none'} | {found.p50_ms:.0f} | {found.p99_ms:.0f} "
                    f"| {share:.0f} % |"
                )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=50, help="requests of each kind")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=100, help="searches per second")
    print(command.run_or_exit(partial(measure, parser.parse_args())))


if __name__ == "__main__":
    main()
