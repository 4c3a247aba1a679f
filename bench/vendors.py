"""What a search costs beside its vendors, and how long it takes when they fail: `.venv/bin/python -m bench.vendors`.

A real server (embedded profile) asks two vendors on loopback that answer after 100 ms each; beside it one vendor is
asked directly. Then both hang, drip headers, drip their bodies; and last, how soon they are asked again after a repair.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from bench import vendor
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
                **vendor.bound((vendors[0].url, vendors[1].url)),
                "RATE_LIMIT": "100000/m",
                "SEARCH_DEADLINE_S": str(DEADLINE_S),
                "THREADS": "32",
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

            for _ in range(10):
                search()
            print("both vendors at 100 ms, ms:  vendor alone   search   difference   ratio   search p95")
            for _ in range(ROUNDS):
                alone, ours = timed(one_vendor), timed(search)
                a, b = statistics.median(alone), statistics.median(ours)
                p95 = statistics.quantiles(ours, n=20)[-1]
                print(f"{a:41.1f} {b:8.1f} {b - a:12.1f} {b / a:7.2f} {p95:12.1f}")
            print(f"both vendors faulty, deadline {DEADLINE_S:g} s: time of the answer, s (ratio to the deadline)")
            for fault in ("hangs before headers", "hangs after headers", "drips headers", "drips its body"):
                for each in vendors:
                    each.repair(upstream.FAULTS[fault][0])
                seconds = []
                for _ in range(4):  # the breaker opens at the fifth
                    started = time.monotonic()
                    assert search().status_code == 500
                    seconds.append(time.monotonic() - started)
                print(f"  {fault:<22} {max(seconds):.3f} ({max(seconds) / DEADLINE_S:.2f})")
                for each in vendors:
                    each.repair(good)
                    each.release()
                assert search().status_code == 200
            for each in vendors:
                each.repair(upstream.drips_body)
            with ThreadPoolExecutor(32) as callers:
                statuses = list(callers.map(lambda _: search().status_code, range(64)))
            assert set(statuses) == {500}
            for each in vendors:
                each.repair(good)  # what drips already goes on dripping
            started = time.monotonic()
            while search().status_code == 500:
                time.sleep(0.25)
            print(f"back after the repair, with all of their threads dripping: {time.monotonic() - started:.1f} s")
        finally:
            service.kill()


def timed(ask: Callable[[], requests.Response]) -> list[float]:
    """Milliseconds of each."""
    taken = []
    for _ in range(SEARCHES):
        started = time.monotonic()
        assert ask().status_code == 200
        taken.append((time.monotonic() - started) * 1000)
    return taken


if __name__ == "__main__":
    main()
