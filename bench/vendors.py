"""Measures searches with slow and faulty vendors: `.venv/bin/python -m bench.vendors`.

A server (embedded profile) calls two mock vendors on loopback with a latency of 100 ms; direct calls to one vendor are
the baseline. Then both vendors hang or send headers or bodies byte by byte. The last figure is the time until searches
succeed again after the vendors have recovered while all their concurrent calls were in use.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from bench import mock_vendors
from tests import upstream
from tests.service import Service
from tests.upstream import Upstream

VENDOR_S = 0.1
DEADLINE_S = 1.5
ROUNDS = 3
SEARCHES = 60


def main() -> None:
    good = upstream.slow(VENDOR_S, upstream.says({**upstream.GOOD_A, **upstream.GOOD_B}))
    vendors = [Upstream(good).start(), Upstream(good).start()]
    numbers = itertools.count(12025550000)
    with tempfile.TemporaryDirectory() as directory:
        service = Service(
            Path(directory),
            {
                **mock_vendors.slot_settings((vendors[0].url, vendors[1].url)),
                "RATE_LIMIT": "100000/m",
                "SEARCH_DEADLINE_S": str(DEADLINE_S),
            },
        )
        service.manage("migrate", "--verbosity=0")
        service.start()
        try:
            key = service.manage("create_token", "bench", "--credits", "1000000", "--quiet").strip()
            session = requests.Session()

            def search() -> requests.Response:
                body = {"api_key": key, "query": str(next(numbers))}
                return session.post(f"{service.url}/callerid/search", json=body, timeout=30)

            def one_vendor() -> requests.Response:
                return session.get(f"{vendors[0].url}/v1/callers/{next(numbers)}", timeout=30)

            compare(one_vendor, search)
            measure_faults(vendors, good, search)
        finally:
            service.kill()


def compare(direct_call: Callable[[], requests.Response], search: Callable[[], requests.Response]) -> None:
    """Prints the latency of a search beside that of a direct call to one vendor, in paired rounds."""
    for _ in range(10):
        search()
    print("vendor latency 100 ms, ms:   direct call   search   difference   ratio   search p95")
    for _ in range(ROUNDS):
        direct, ours = latencies_ms(direct_call), latencies_ms(search)
        a, b = statistics.median(direct), statistics.median(ours)
        p95 = statistics.quantiles(ours, n=20)[-1]
        print(f"{a:41.1f} {b:8.1f} {b - a:12.1f} {b / a:7.2f} {p95:12.1f}")


def measure_faults(vendors: list[Upstream], good: upstream.Behaviour, search: Callable[[], requests.Response]) -> None:
    """Prints how long searches take while both vendors are faulty, and how long the recovery takes."""
    print(f"both vendors faulty, deadline {DEADLINE_S:g} s: latency, s (ratio to the deadline)")
    for fault in ("hangs before headers", "hangs after headers", "drips headers", "drips its body"):
        for each in vendors:
            each.behave_as(upstream.FAULTS[fault][0])
        seconds = []
        for _ in range(4):  # the fifth failure would open the circuit breaker
            started = time.monotonic()
            assert search().status_code == 500
            seconds.append(time.monotonic() - started)
        print(f"  {fault:<22} {max(seconds):.3f} ({max(seconds) / DEADLINE_S:.2f})")
        for each in vendors:
            each.behave_as(good)
            each.release()
        assert search().status_code == 200
    for each in vendors:
        each.behave_as(upstream.drips_body)
    with ThreadPoolExecutor(32) as callers:
        statuses = list(callers.map(lambda _: search().status_code, range(64)))
    assert set(statuses) == {500}
    for each in vendors:
        each.behave_as(good)  # responses in progress stay slow
    started = time.monotonic()
    while search().status_code == 500:
        time.sleep(0.25)
    print(f"recovery with all calls to the vendors in use: {time.monotonic() - started:.1f} s")


def latencies_ms(send: Callable[[], requests.Response]) -> list[float]:
    latencies = []
    for _ in range(SEARCHES):
        started = time.monotonic()
        assert send().status_code == 200
        latencies.append((time.monotonic() - started) * 1000)
    return latencies


if __name__ == "__main__":
    main()
